//! A loaded plugin: linked once, its description checked, ready to run one cell after another.

use crate::{
    bindings::{
        exports::opcell::plugin::{judges, operations},
        opcell::plugin::types,
    },
    cell::{self, Call},
    describe::{self, JudgeDescription, OperationDescription, OperationSchemas},
    engine::{CellEngine, Metering},
    error::{CellError, LoadError},
    exports::{self, Ask, Describe, Exported, Interface, Judges, Operations},
    grants::{Grants, Narrowing, Policy},
    host::{HostServices, NoServices},
    imports::{failure_from_guest, files::Roots},
    limits::{EffectiveLimits, ExplainedLimit, LimitRequest, Limits},
    manifest::Manifest,
    receipt::{CellResult, Receipt},
    schema::{self, Schema},
    state::CellState,
};
use opcell_types::{CallContext, Effects, Failure, Outcome, Verdict, suggest::did_you_mean, text::printable};
use serde::Serialize;
use serde_json::Value;
use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use wasmtime::component::InstancePre;

/// Everything of a plugin that a cell needs, prepared once.
pub(crate) struct Linked {
    pub(crate) name: Arc<str>,
    pub(crate) digest: Arc<str>,
    pub(crate) engine: CellEngine,
    pub(crate) metering: Metering,
    pub(crate) pre: InstancePre<CellState>,
    pub(crate) operations: Option<Exported>,
    pub(crate) judges: Option<Exported>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) roots: Arc<Roots>,
    pub(crate) wasi: bool,
    /// Cells of this plugin at once.
    pub(crate) turns: Semaphore,
}

/// What an operation returned, checked against its own schema.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OperationSuccess {
    /// Machine-readable.
    pub data: Value,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// For debugging.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

/// One call of an operation or judge.
pub struct CellRequest<'a> {
    /// Which one.
    pub id: &'a str,
    /// One JSON value as text.
    pub arguments: &'a str,
    /// Where in a run.
    pub context: CallContext,
    /// What the step leaves of the grant.
    pub narrowing: Option<Narrowing>,
    /// Wall time that the step allows, if less than the plugin has.
    pub timeout: Option<Duration>,
    /// Ends the cell when the run is cancelled.
    pub cancel: CancellationToken,
    /// Who serves the imports.
    pub host: Arc<dyn HostServices>,
}

impl<'a> CellRequest<'a> {
    /// A call outside of any run, with no host behind it.
    #[must_use]
    pub fn new(id: &'a str, arguments: &'a str) -> Self {
        static NOBODY: LazyLock<Arc<NoServices>> = LazyLock::new(|| Arc::new(NoServices));
        Self {
            id,
            arguments,
            context: CallContext::default(),
            narrowing: None,
            timeout: None,
            cancel: CancellationToken::new(),
            host: Arc::clone(&*NOBODY) as Arc<dyn HostServices>,
        }
    }
}

/// A component that passed every check.
pub struct Plugin {
    linked: Linked,
    manifest: Manifest,
    limits: EffectiveLimits,
    /// The same limits, shared with every cell that no step narrows.
    shared_limits: Arc<Limits>,
    operations: Vec<OperationDescription>,
    operation_schemas: Vec<OperationSchemas>,
    operation_index: HashMap<Arc<str>, usize>,
    judges: Vec<JudgeDescription>,
    judge_schemas: Vec<Arc<Schema>>,
    judge_index: HashMap<Arc<str>, usize>,
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plugin")
            .field("name", &self.linked.name)
            .field("digest", &self.linked.digest)
            .finish_non_exhaustive()
    }
}

impl Plugin {
    /// Runs `describe` and checks what it says.
    pub(crate) async fn describe(
        linked: Linked,
        manifest: Manifest,
        limits: EffectiveLimits,
    ) -> Result<Self, LoadError> {
        let shared_limits = Arc::new(limits.limits.clone());
        let cancel = CancellationToken::new();
        let call = || Call {
            operation: "describe".into(),
            limits: Arc::clone(&shared_limits),
            // Describing needs nothing from the host.
            narrowing: Some(Narrowing { tools: Some([].into()), skills: Some([].into()), files: Some([].into()) }),
            context: CallContext::default(),
            cancel: &cancel,
            host: Arc::new(NoServices),
        };
        let (operations, operation_schemas) =
            described::<Operations, (Vec<_>, Vec<_>)>(&linked, call(), describe::operations).await?;
        let (judges, judge_schemas) = described::<Judges, (Vec<_>, Vec<_>)>(&linked, call(), describe::judges).await?;
        if let Some(both) = judges
            .iter()
            .find(|judge| operations.iter().any(|operation: &OperationDescription| operation.id == judge.id))
        {
            let message = format!("`{}` is an operation as well; every id names one thing", both.id);
            return Err(LoadError::Describe { interface: "judges", message });
        }
        let operation_index =
            operations.iter().enumerate().map(|(at, operation)| (Arc::clone(&operation.id), at)).collect();
        let judge_index = judges.iter().enumerate().map(|(at, judge)| (Arc::clone(&judge.id), at)).collect();
        Ok(Self {
            linked,
            manifest,
            limits,
            shared_limits,
            operations,
            operation_schemas,
            operation_index,
            judges,
            judge_schemas,
            judge_index,
        })
    }

    /// The operator's name for it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.linked.name
    }

    /// The manifest's version.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.manifest.version.as_deref()
    }

    /// BLAKE3 of the component's bytes, in hexadecimal.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.linked.digest
    }

    /// What the plugin says about itself.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// What it asks for and what it was given.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.linked.policy
    }

    /// What the operator gave.
    #[must_use]
    pub fn grants(&self) -> &Grants {
        self.linked.policy.grants()
    }

    /// The pool in which its cells run: `small`, `script` or `on-demand`.
    #[must_use]
    pub fn pool(&self) -> &'static str {
        self.linked.engine.name()
    }

    /// Its operations, in the order in which it lists them.
    #[must_use]
    pub fn operations(&self) -> &[OperationDescription] {
        &self.operations
    }

    /// Its judges, in the order in which it lists them.
    #[must_use]
    pub fn judges(&self) -> &[JudgeDescription] {
        &self.judges
    }

    /// What repeating an operation does; `None` when the plugin has no such operation.
    #[must_use]
    pub fn effects(&self, operation: &str) -> Option<Effects> {
        let at = *self.operation_index.get(operation)?;
        self.operations.get(at).map(|operation| operation.effects)
    }

    /// Every limit of its cells, with who decided it.
    #[must_use]
    pub fn limits_explained(&self) -> Vec<ExplainedLimit> {
        self.limits.explain()
    }

    /// The limits of its cells.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits.limits
    }

    /// Runs one operation in a fresh cell.
    ///
    /// Never panics and never blocks. Needs a tokio runtime with time enabled.
    pub async fn invoke(&self, request: CellRequest<'_>) -> CellResult<OperationSuccess> {
        let found = self
            .operation_index
            .get(request.id)
            .and_then(|at| self.operation_schemas.get(*at).zip(self.operations.get(*at)));
        let Some((schemas, description)) = found else {
            return self.unknown("operation", request.id, self.operations.iter().map(|operation| &*operation.id));
        };
        if let Err(error) = self.check_arguments(&request, &schemas.arguments).await {
            return self.refused(request.id, error);
        }
        let (call, context) = self.call(&request, &description.id);
        let (answer, receipt) =
            cell::run(&self.linked, call, Ask::<Operations>::new(request.id, request.arguments, context)).await;
        let result = match answer {
            Ok(Ok(success)) => Self::success(request.id, success, &schemas.data).await,
            Ok(Err(failure)) => Err(self.failure(failure, &receipt)),
            Err(error) => Err(error),
        };
        sealed(result, receipt)
    }

    /// Asks one judge in a fresh cell. Exactly one outcome, or an error: a judge fails closed.
    ///
    /// Never panics and never blocks. Needs a tokio runtime with time enabled.
    pub async fn judge(&self, request: CellRequest<'_>) -> CellResult<Verdict> {
        let found =
            self.judge_index.get(request.id).and_then(|at| self.judge_schemas.get(*at).zip(self.judges.get(*at)));
        let Some((schema, description)) = found else {
            return self.unknown("judge", request.id, self.judges.iter().map(|judge| &*judge.id));
        };
        if let Err(error) = self.check_arguments(&request, schema).await {
            return self.refused(request.id, error);
        }
        let (call, context) = self.call(&request, &description.id);
        let (answer, receipt) =
            cell::run(&self.linked, call, Ask::<Judges>::new(request.id, request.arguments, context)).await;
        let result = match answer {
            Ok(Ok(verdict)) => self.verdict(verdict, description),
            Ok(Err(failure)) => Err(self.failure(failure, &receipt)),
            Err(error) => Err(error),
        };
        sealed(result, receipt)
    }

    fn call<'a>(&self, request: &'a CellRequest<'_>, id: &Arc<str>) -> (Call<'a>, exports::Context<'a>) {
        let limits = match request.timeout {
            None => Arc::clone(&self.shared_limits),
            Some(timeout) => {
                let wall_time = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX).max(1);
                let step = LimitRequest { wall_time: Some(wall_time), ..LimitRequest::default() };
                Arc::new(self.limits.narrowed(&step).limits)
            }
        };
        let context = &request.context;
        let for_guest = exports::Context {
            run: &context.run,
            step: &context.step,
            visit: context.visit,
            attempt: context.attempt,
            idempotency_key: &context.idempotency_key,
        };
        let call = Call {
            operation: Arc::clone(id),
            limits,
            narrowing: request.narrowing.clone(),
            context: context.clone(),
            cancel: &request.cancel,
            host: Arc::clone(&request.host),
        };
        (call, for_guest)
    }

    async fn check_arguments(&self, request: &CellRequest<'_>, schema: &Arc<Schema>) -> Result<(), CellError> {
        let limit = self.shared_limits.argument_bytes;
        if request.arguments.len() as u64 > limit {
            let message =
                format!("{} bytes of arguments, more than {limit} (limit `argument-bytes`)", request.arguments.len());
            return Err(CellError::TransferLimit { message });
        }
        match schema::parse(schema, request.arguments).await {
            Ok(_) => Ok(()),
            Err(message) => Err(CellError::InvalidArguments { id: request.id.to_owned(), message }),
        }
    }

    async fn success(
        id: &str,
        success: operations::Success,
        schema: &Arc<Schema>,
    ) -> Result<OperationSuccess, CellError> {
        let malformed = |message: String| CellError::MalformedResult { id: id.to_owned(), message };
        let data = schema::parse(schema, &success.data)
            .await
            .map_err(|message| malformed(format!("of its data, {message}")))?;
        let details = success.details.map(|text| serde_json::from_str(&text)).transpose();
        let details = details.map_err(|error| malformed(format!("of its details, it is not JSON: {error}")))?;
        Ok(OperationSuccess { data, summary: success.summary, details })
    }

    fn verdict(&self, verdict: judges::Verdict, description: &JudgeDescription) -> Result<Verdict, CellError> {
        let outcome = Outcome::from(verdict.outcome);
        if !description.outcomes.is_empty() && !description.outcomes.contains(&outcome) {
            let listed: Vec<String> = description.outcomes.iter().map(ToString::to_string).collect();
            let message = format!("{outcome} is not a declared outcome: {}", listed.join(", "));
            return Err(CellError::MalformedResult {
                id: description.id.to_string(),
                message: printable(&message, 1_000),
            });
        }
        let limit = usize::try_from(self.shared_limits.failure_bytes).unwrap_or(usize::MAX);
        Ok(Verdict { outcome, rationale: verdict.rationale.map(|text| printable(&text, limit)) })
    }

    /// A plugin that gives up because of a refusal says so with the reason `denied`; then the refusal itself is the error.
    fn failure(&self, failure: types::Failure, receipt: &Receipt) -> CellError {
        match receipt.denials.last() {
            Some(denial) if failure.reason == Failure::DENIED => CellError::Denied(denial.clone()),
            _ => CellError::PluginFailure(failure_from_guest(failure, self.shared_limits.failure_bytes)),
        }
    }

    fn unknown<'a, T>(&self, what: &'static str, id: &str, known: impl Iterator<Item = &'a str>) -> CellResult<T> {
        let error = CellError::Unknown {
            plugin: self.linked.name.to_string(),
            what,
            id: printable(id, 200),
            suggestion: did_you_mean(id, known).map(str::to_owned),
        };
        self.refused(id, error)
    }

    fn refused<T>(&self, id: &str, error: CellError) -> CellResult<T> {
        sealed(Err(error), Receipt::unused(&self.linked, printable(id, 200).into(), Duration::ZERO))
    }
}

fn sealed<T>(result: Result<T, CellError>, mut receipt: Receipt) -> CellResult<T> {
    receipt.error = result.as_ref().err().map(|error| error.kind().to_owned());
    CellResult { result, receipt }
}

/// Asks a plugin what one interface offers, and checks the answer where that keeps nobody waiting: its schemas are untrusted.
async fn described<I: Interface, T: Default + Send + 'static>(
    linked: &Linked,
    call: Call<'_>,
    check: fn(Vec<I::Description>) -> Result<T, String>,
) -> Result<T, LoadError> {
    if I::of(linked).is_none() {
        return Ok(T::default());
    }
    let (described, _) = cell::run(linked, call, Describe::<I>::new()).await;
    let described = described.map_err(|error| LoadError::DescribeFailed { interface: I::NAME, error: error.into() })?;
    let wrong = |message| LoadError::Describe { interface: I::NAME, message };
    let started = Instant::now();
    let checked = tokio::task::spawn_blocking(move || check(described)).await;
    tracing::debug!(interface = I::NAME, elapsed = ?started.elapsed(), "checked what the plugin describes");
    checked.map_err(|_| wrong("its schemas cannot be compiled".to_owned()))?.map_err(wrong)
}
