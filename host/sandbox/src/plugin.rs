//! A loaded plugin: linked once, its description checked, ready to run one cell after another.

use crate::{
    bindings::{
        exports::opcell::plugin0_1_0::{judges, operations},
        opcell::plugin0_1_0::types,
    },
    cell::{self, Call},
    checks::{self, apart},
    context::PluginContext,
    describe::{self, JudgeDescription, OperationDescription, check_outcome},
    engine::{CellEngine, Metering},
    error::{CellError, LoadError},
    exports::{Arguments, Ask, Describe, Exported, Interface, Judges, Operations},
    grants::{Grants, Narrowing, Policy},
    host::{HostServices, NoServices},
    imports::{failure_from_guest, files::Roots},
    inspect::Surface,
    limits::{EffectiveLimits, ExplainedLimit, LimitRequest, Limits},
    manifest::Manifest,
    pools::{Code, Pool},
    programs::{CellProgram, ProgramCache},
    receipt::{CellResult, Receipt},
    recording::Tape,
    sandbox::Settings,
    schedule::{
        allotment::Allotment,
        fair::Share,
        queue::Queue,
        shards::{EngineShard, EngineShards},
    },
    state::CellState,
    typed::{AskOperation, Typed},
};
use opcell_schema::{Schema, Weight};
use opcell_types::{
    CallContext, Denial, Digest, Effects, Failure, OperationId, Outcome, Timeline, Value, Verdict,
    suggest::did_you_mean, text::printable,
};
use serde::Serialize;
use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;
use wasmtime::component::InstancePre;

/// Everything of a plugin that a cell needs, prepared once.
pub(crate) struct Linked {
    pub(crate) name: Arc<str>,
    pub(crate) digest: Digest,
    pub(crate) engine: CellEngine,
    pub(crate) metering: Metering,
    pub(crate) pre: InstancePre<CellState>,
    pub(crate) operations: Option<Exported>,
    pub(crate) judges: Option<Exported>,
    /// The functions of a component that was not written for the contract.
    pub(crate) typed: Option<Typed>,
    pub(crate) policy: Arc<Policy>,
    /// The limits of its cells, where no step allows less.
    pub(crate) limits: Arc<Limits>,
    pub(crate) roots: Arc<Roots>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) wasi: bool,
    /// `true` if it makes requests as WASI does.
    pub(crate) http: bool,
    /// Its calls, running and waiting.
    pub(crate) queue: Arc<Queue>,
    /// The part that its sandbox has of pools that are shared.
    pub(crate) allotment: Option<Arc<Allotment>>,
    /// The scheduling share of its cells.
    pub(crate) share: Arc<Share>,
    /// The code that `pre` was made of, for the other plugins and engines that use it.
    pub(crate) code: Arc<Code>,
    /// The programs that its cells have compiled, if it is a runtime that keeps them.
    pub(crate) programs: Option<Arc<ProgramCache>>,
    /// Programs are kept for the plugin as it was loaded, 0, or for one of its contexts.
    pub(crate) scope: u64,
}

impl Linked {
    /// The same on another engine of its pool.
    pub(crate) fn on(&self, pool: &Pool) -> Option<Self> {
        let code = pool.same(&self.code)?;
        let component = &code.component;
        let pre = pool.linker(self.wasi, self.http).instantiate_pre(component).ok()?;
        let operations = self.operations.as_ref().map(|_| Exported::of::<Operations>(component)).transpose().ok()?;
        let judges = self.judges.as_ref().map(|_| Exported::of::<Judges>(component)).transpose().ok()?;
        Some(Self {
            name: (&*self.name).into(),
            digest: self.digest.to_string().parse().ok()?,
            engine: pool.engine.clone(),
            metering: self.metering,
            pre,
            operations,
            judges,
            typed: None,
            policy: Arc::clone(&self.policy),
            limits: Arc::new(Limits::clone(&self.limits)),
            roots: Arc::clone(&self.roots),
            settings: Arc::clone(&self.settings),
            wasi: self.wasi,
            http: self.http,
            queue: Arc::clone(&self.queue),
            allotment: self.allotment.clone(),
            share: Arc::clone(&self.share),
            code,
            programs: self.programs.clone(),
            scope: self.scope,
        })
    }
}

/// The result of an operation, checked against its own schema.
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
    /// ID of the operation or judge: `namespace/name`.
    pub id: &'a str,
    /// One JSON value as text.
    pub arguments: &'a str,
    /// The value that this text was written of, where the caller has it: it need not be read again to be checked.
    pub value: Option<&'a Value>,
    /// The place in the run.
    pub context: CallContext,
    /// The part of the grant that the step leaves.
    pub narrowing: Option<Narrowing>,
    /// Wall time that the step allows, if less than the plugin has.
    pub timeout: Option<Duration>,
    /// Ends the cell when the run is cancelled.
    pub cancel: Arc<CancellationToken>,
    /// The services behind the imports.
    pub host: Arc<dyn HostServices>,
    /// The recording of its host calls, or the one that answers them.
    pub tape: Tape,
    /// The randomness and the clocks of a cell that may be run again with the answers that it had. A recording that is
    /// replayed has its own.
    pub timeline: Option<Timeline>,
    /// The context in whose name the call is made; without one, the plugin's own grants, limits and settings count.
    pub within: Option<Arc<PluginContext>>,
}

impl std::fmt::Debug for CellRequest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CellRequest").field("id", &self.id).field("context", &self.context).finish_non_exhaustive()
    }
}

impl<'a> CellRequest<'a> {
    /// A call outside of any run, with no host behind it.
    #[must_use]
    pub fn new(id: &'a str, arguments: &'a str) -> Self {
        thread_local! {
            static NO_SERVICES: Arc<NoServices> = Arc::new(NoServices);
        }
        Self {
            id,
            arguments,
            value: None,
            context: CallContext::default(),
            narrowing: None,
            timeout: None,
            cancel: Arc::default(),
            host: NO_SERVICES.with(Arc::clone) as Arc<dyn HostServices>,
            tape: Tape::Off,
            timeline: None,
            within: None,
        }
    }
}

/// A component that passed every check.
pub struct Plugin {
    shards: Arc<EngineShards>,
    surface: Surface,
    limits: EffectiveLimits,
    operations: Vec<OperationDescription>,
    operation_index: HashMap<OperationId, usize>,
    judges: Vec<JudgeDescription>,
    judge_schemas: Vec<Arc<Schema>>,
    judge_index: HashMap<OperationId, usize>,
    described: Option<Receipt>,
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plugin")
            .field("name", &self.linked().name)
            .field("digest", &self.linked().digest)
            .finish_non_exhaustive()
    }
}

impl Plugin {
    /// Runs `describe` and checks what it says.
    pub(crate) async fn describe(
        linked: Linked,
        pool: Arc<Pool>,
        surface: Surface,
        limits: EffectiveLimits,
        typed: Option<Vec<operations::OperationDescription>>,
    ) -> Result<Self, LoadError> {
        let linked = Arc::new(linked);
        let call = || Call {
            operation: "describe".into(),
            limits: Arc::clone(&linked.limits),
            // Describing needs nothing from the host.
            narrowing: Some(Narrowing::to_nothing()),
            context: Arc::default(),
            cancel: Arc::default(),
            host: Arc::new(NoServices),
            tape: Tape::Off,
            timeline: None,
            describes: true,
            program: None,
        };
        let ((operations, operation_schemas), of_operations) = match typed {
            None => described::<Operations, (Vec<_>, Vec<_>)>(&linked, call(), describe::operations).await?,
            Some(typed) => {
                let checked = apart(&linked.share, move || describe::functions(typed)).await;
                let checked = checked.unwrap_or_else(|| Err("its schemas cannot be compiled".to_owned()));
                (checked.map_err(|message| LoadError::Typed { problems: vec![message] })?, None)
            }
        };
        let ((judges, judge_schemas), of_judges) =
            described::<Judges, (Vec<_>, Vec<_>)>(&linked, call(), describe::judges).await?;
        // Tool chains of some languages export both interfaces whatever the plugin offers: one of them may be empty.
        if operations.is_empty() && judges.is_empty() {
            let interface = if of_operations.is_some() || of_judges.is_none() { "operations" } else { "judges" };
            let message = "it describes nothing, although the component exports the interface".to_owned();
            return Err(LoadError::Describe { interface, message });
        }
        if let Some(both) = judges
            .iter()
            .find(|judge| operations.iter().any(|operation: &OperationDescription| operation.id == judge.id))
        {
            let message = format!("`{}` is an operation as well; every id names one thing", both.id);
            return Err(LoadError::Describe { interface: "judges", message });
        }
        let operation_index = operations.iter().enumerate().map(|(at, operation)| (operation.id.clone(), at)).collect();
        let judge_index = judges.iter().enumerate().map(|(at, judge)| (judge.id.clone(), at)).collect();
        let offered = operations.iter().map(|operation: &OperationDescription| &*operation.id).zip(&operation_schemas);
        let shards = EngineShards::new(EngineShard::new(linked, offered), pool);
        Ok(Self {
            shards,
            surface,
            limits,
            operations,
            operation_index,
            judges,
            judge_schemas,
            judge_index,
            described: of_operations.or(of_judges),
        })
    }

    /// Returns the receipt of the cell in which the plugin described what it offers: a call that does nothing.
    #[must_use]
    pub fn describe_receipt(&self) -> Option<&Receipt> {
        self.described.as_ref()
    }

    /// The operator's name for it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.linked().name
    }

    /// The manifest's version.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.surface.manifest.version.as_deref()
    }

    /// BLAKE3 of the component's bytes, in hexadecimal.
    #[must_use]
    pub fn digest(&self) -> &Digest {
        &self.linked().digest
    }

    /// Returns the plugin's manifest.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.surface.manifest
    }

    /// Returns the surface of its component: imports, exports, manifest.
    #[must_use]
    pub fn surface(&self) -> &Surface {
        &self.surface
    }

    /// Returns its policy: requests and grants.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.linked().policy
    }

    /// Returns the operator's grants.
    #[must_use]
    pub fn grants(&self) -> &Grants {
        self.linked().policy.grants()
    }

    /// The pool in which its cells run: `small`, `script` or `on-demand`.
    #[must_use]
    pub fn pool(&self) -> &'static str {
        self.linked().engine.name()
    }

    /// Returns the number of engines that its cells run on by now. Threads that call it alternately get one each, so
    /// that they do not wait for one another.
    #[must_use]
    pub fn engines(&self) -> usize {
        self.shards.count()
    }

    /// Its operations, in the order in which it lists them.
    #[must_use]
    pub fn operations(&self) -> &[OperationDescription] {
        &self.operations
    }

    /// Returns `true` if its operations are the exported functions of a component that was not written for Opcell.
    #[must_use]
    pub fn is_typed(&self) -> bool {
        self.linked().typed.is_some()
    }

    /// The exported functions that are not operations, each with the reason. Empty for a plugin that was written for
    /// Opcell.
    #[must_use]
    pub fn left_out(&self) -> &[String] {
        self.linked().typed.as_ref().map_or(&[], |typed| &typed.left_out)
    }

    /// Its judges, in the order in which it lists them.
    #[must_use]
    pub fn judges(&self) -> &[JudgeDescription] {
        &self.judges
    }

    /// Returns the effect of repeating an operation; `None` when the plugin has no such operation.
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
        let shard = self.shards.current();
        let found = self.operation_index.get(request.id).and_then(|at| shard.operations.get(*at));
        let Some(operation) = found else {
            return self.unknown("operation", request.id, self.operations.iter().map(|operation| &*operation.id));
        };
        let id = request.id;
        let linked = &match within(shard, &request) {
            Ok(linked) => linked,
            Err(error) => return self.refused(id, error),
        };
        let (call, arguments, before) = match self.call(linked, request, &operation.id, &operation.schemas.arguments) {
            Ok(ready) => ready,
            Err(error) => return self.refused(id, error),
        };
        let id = Arc::clone(&call.operation);
        let ask = match linked.typed {
            None => AskOperation::Contract(Ask::new(id, arguments, Arc::clone(&call.context))),
            Some(_) => AskOperation::Typed { id, arguments },
        };
        let (called, check) = (Arc::clone(operation), Checks(Arc::clone(linked)));
        let after = |answer, denial| async move {
            match answer {
                Ok(success) => check.success(&called.id, success, &called.schemas.data).await,
                Err(failure) => Err(check.failure(failure, denial)),
            }
        };
        let (result, receipt) = cell::run(linked, call, before, ask, after).await;
        sealed(result, receipt)
    }

    /// Asks one judge in a fresh cell. Exactly one outcome, or an error: a judge fails closed.
    ///
    /// Never panics and never blocks. Needs a tokio runtime with time enabled.
    pub async fn judge(&self, request: CellRequest<'_>) -> CellResult<Verdict> {
        let shard = self.shards.current();
        let found =
            self.judge_index.get(request.id).and_then(|at| self.judge_schemas.get(*at).zip(self.judges.get(*at)));
        let Some((schema, description)) = found else {
            return self.unknown("judge", request.id, self.judges.iter().map(|judge| &*judge.id));
        };
        let id = request.id;
        let linked = &match within(shard, &request) {
            Ok(linked) => linked,
            Err(error) => return self.refused(id, error),
        };
        let (call, arguments, before) = match self.call(linked, request, description.id.shared(), schema) {
            Ok(ready) => ready,
            Err(error) => return self.refused(id, error),
        };
        let ask = Ask::<Judges>::new(Arc::clone(&call.operation), arguments, Arc::clone(&call.context));
        let (id, outcomes) = (Arc::clone(&call.operation), Arc::clone(&description.outcomes));
        let check = Checks(Arc::clone(linked));
        let after = |answer, denial| async move {
            match answer {
                Ok(verdict) => check.verdict(&id, verdict, &outcomes),
                Err(failure) => Err(check.failure(failure, denial)),
            }
        };
        let (result, receipt) = cell::run(linked, call, before, ask, after).await;
        sealed(result, receipt)
    }

    /// A cell's call, its arguments, and the check of these.
    fn call(
        &self,
        linked: &Arc<Linked>,
        request: CellRequest<'_>,
        id: &Arc<str>,
        schema: &Arc<Schema>,
    ) -> Result<(Call, Arguments, impl Future<Output = Result<(), CellError>> + use<>), CellError> {
        let own = &linked.limits;
        let limit = own.argument_bytes;
        if request.arguments.len() as u64 > limit {
            let message =
                format!("{} bytes of arguments, more than {limit} (limit `argument-bytes`)", request.arguments.len());
            return Err(CellError::TransferLimit { message });
        }
        let limits = match request.timeout {
            None => Arc::clone(own),
            Some(timeout) => {
                let wall_time = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX).max(1);
                let step = LimitRequest { wall_time: Some(wall_time), ..LimitRequest::default() };
                let limits = request.within.as_ref().map_or(&self.limits, |within| &within.limits);
                Arc::new(limits.narrowed(&step).limits)
            }
        };
        // What a call uses up is compared where it is recorded, and counted where fuel is.
        let is_measured = !matches!(request.tape, Tape::Off) || linked.metering == Metering::Deterministic;
        let program = match is_measured {
            true => None,
            false => CellProgram::of(linked, request.value, &request.context),
        };
        let call = Call {
            operation: Arc::clone(id),
            limits,
            narrowing: request.narrowing,
            context: Arc::new(request.context),
            cancel: request.cancel,
            host: request.host,
            tape: request.tape,
            timeline: request.timeline,
            describes: false,
            program,
        };
        let arguments: Arc<str> = request.arguments.into();
        let most = own.memory;
        let fits = checks::surely_fits(schema, request.value, &arguments, most);
        let arguments = Arguments::new(arguments, fits);
        let rest = (!fits).then(|| (Arc::clone(id), Arc::clone(schema), arguments.clone(), Checks(Arc::clone(linked))));
        let before = async move {
            let Some((id, schema, arguments, check)) = rest else { return Ok(()) };
            let (text, memory) = (Arc::clone(arguments.text()), check.0.limits.memory);
            let checked = checks::check_arguments(&check.0.share, &schema, text, memory).await;
            let written = checked.map_err(|mut message| {
                if check.0.typed.is_some() && Weight::of(arguments.text()).bytes > memory {
                    message.push_str("; a list of bytes takes less as base64 text");
                }
                CellError::InvalidArguments { id: id.to_string(), message }
            })?;
            written.into_iter().for_each(|text| arguments.write(text));
            Ok(())
        };
        Ok((call, arguments, before))
    }

    /// The limits of its cells, with their sources.
    pub(crate) fn effective_limits(&self) -> &EffectiveLimits {
        &self.limits
    }

    fn linked(&self) -> &Arc<Linked> {
        &self.shards.first().linked
    }

    fn unknown<'a, T>(&self, what: &'static str, id: &str, known: impl Iterator<Item = &'a str>) -> CellResult<T> {
        let error = CellError::Unknown {
            plugin: self.linked().name.to_string(),
            what,
            id: printable(id, 200),
            suggestion: did_you_mean(id, known).map(str::to_owned),
        };
        self.refused(id, error)
    }

    fn refused<T>(&self, id: &str, error: CellError) -> CellResult<T> {
        sealed(Err(error), Receipt::unused(self.linked(), printable(id, 200).into(), Duration::ZERO))
    }
}

/// The plugin on the engine of the calling thread, as it is in the context of a call.
fn within(shard: &EngineShard, request: &CellRequest<'_>) -> Result<Arc<Linked>, CellError> {
    let Some(context) = &request.within else { return Ok(Arc::clone(&shard.linked)) };
    context.of(&shard.linked).map(Arc::new).ok_or_else(|| CellError::HostError {
        message: "the context of the call was made for another plugin, or for another version of it".to_owned(),
    })
}

fn sealed<T>(result: Result<T, CellError>, mut receipt: Receipt) -> CellResult<T> {
    receipt.error = result.as_ref().err().map(|error| error.kind().to_owned());
    receipt.limit = result.as_ref().err().and_then(CellError::limit).map(str::to_owned);
    CellResult { result, receipt }
}

/// The host's checks of a cell's answer.
struct Checks(Arc<Linked>);

impl Checks {
    async fn success(
        self,
        id: &str,
        success: operations::Success,
        schema: &Arc<Schema>,
    ) -> Result<OperationSuccess, CellError> {
        let malformed = |message: String| CellError::MalformedResult { id: id.to_owned(), message };
        let memory = self.0.limits.memory;
        let data = match checks::quick(schema, &success.data, memory) {
            Some(data) => data,
            None => checks::parse(&self.0.share, schema, success.data.into(), memory)
                .await
                .map_err(|message| malformed(format!("in its data: {message}")))?,
        };
        let details = match success.details {
            None => None,
            Some(text) => {
                Some(self.details(text).await.map_err(|message| malformed(format!("in its details: {message}")))?)
            }
        };
        let summary = success.summary.map(|text| printable(&text, self.text_bytes()));
        Ok(OperationSuccess { data, summary, details })
    }

    /// Details are for people and models who look for a mistake: they are cleaned, and too long ones become a text that
    /// is cut.
    async fn details(&self, text: String) -> Result<Value, String> {
        let most = usize::try_from(self.0.limits.log_bytes).unwrap_or(usize::MAX);
        if text.len() > most {
            return Ok(Value::from(printable(&text, most)));
        }
        static ANY: LazyLock<Result<Arc<Schema>, String>> = LazyLock::new(|| Schema::shared(&Value::Bool(true)));
        let any = ANY.as_ref().map_err(Clone::clone)?;
        let details = checks::parse(&self.0.share, any, text.into(), self.0.limits.memory).await?;
        Ok(cleaned(&details).unwrap_or(details))
    }

    fn verdict(&self, id: &str, verdict: judges::Verdict, outcomes: &[Outcome]) -> Result<Verdict, CellError> {
        let outcome = Outcome::from(verdict.outcome);
        let malformed = |message: String| CellError::MalformedResult { id: id.to_owned(), message };
        if !outcomes.is_empty() && !outcomes.contains(&outcome) {
            let listed: Vec<String> = outcomes.iter().map(ToString::to_string).collect();
            let message = format!("{outcome} is not a declared outcome: {}", listed.join(", "));
            return Err(malformed(printable(&message, 1_000)));
        }
        check_outcome(&outcome).map_err(malformed)?;
        Ok(Verdict { outcome, rationale: verdict.rationale.map(|text| printable(&text, self.text_bytes())) })
    }

    /// A plugin that gives up because of a refusal says so with the reason `denied`; then the refusal itself is the
    /// error.
    fn failure(&self, failure: types::Failure, denial: Option<Denial>) -> CellError {
        match denial {
            Some(denial) if failure.reason == Failure::DENIED => CellError::Denied(denial),
            _ => CellError::PluginFailure(failure_from_guest(failure, self.0.limits.failure_bytes)),
        }
    }

    fn text_bytes(&self) -> usize {
        usize::try_from(self.0.limits.failure_bytes).unwrap_or(usize::MAX)
    }
}

/// The value without what is hostile in its texts, names of members included; `None` where nothing is. Values that were
/// parsed are not deep.
fn cleaned(value: &Value) -> Option<Value> {
    let clean = |text: &str| Some(printable(text, usize::MAX)).filter(|shown| shown != text);
    match value {
        Value::String(text) => clean(text).map(Value::from),
        Value::Array(items) => {
            let changed: Vec<Option<Value>> = items.iter().map(cleaned).collect();
            changed.iter().any(Option::is_some).then(|| {
                let all = items.iter().zip(changed).map(|(item, changed)| changed.unwrap_or_else(|| item.clone()));
                Value::from(all.collect::<Vec<Value>>())
            })
        }
        Value::Object(members) => {
            let changed: Vec<_> = members.iter().map(|(name, value)| (clean(name), cleaned(value))).collect();
            changed.iter().any(|(name, value)| name.is_some() || value.is_some()).then(|| {
                let all = members.iter().zip(changed).map(|((name, value), (shown, changed))| {
                    (shown.unwrap_or_else(|| name.to_string()), changed.unwrap_or_else(|| value.clone()))
                });
                Value::object(all)
            })
        }
        Value::Undefined | Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// Asks a plugin what one interface offers, and checks the answer where that keeps no one waiting: its schemas are
/// untrusted.
async fn described<I: Interface, T: Default + Send + 'static>(
    linked: &Arc<Linked>,
    call: Call,
    check: fn(Vec<I::Description>) -> Result<T, String>,
) -> Result<(T, Option<Receipt>), LoadError> {
    if I::of(linked).is_none() {
        return Ok((T::default(), None));
    }
    let share = Arc::clone(&linked.share);
    let after = move |described, _| async move {
        let started = Instant::now();
        let checked = apart(&share, move || check(described)).await;
        tracing::debug!(interface = I::NAME, elapsed = ?started.elapsed(), "checked what the plugin describes");
        Ok(checked.unwrap_or_else(|| Err("its schemas cannot be compiled".to_owned())))
    };
    let (checked, receipt) = cell::run(linked, call, async { Ok(()) }, Describe::<I>::new(), after).await;
    let checked = checked.map_err(|error| LoadError::DescribeFailed { interface: I::NAME, error: error.into() })?;
    let checked = checked.map_err(|message| LoadError::Describe { interface: I::NAME, message })?;
    Ok((checked, Some(receipt)))
}

#[cfg(test)]
mod tests {
    use super::cleaned;
    use opcell_types::Value;

    #[test]
    fn hostile_texts_are_cleaned_wherever_they_are_and_other_values_are_not_copied() {
        let value = |text: &str| Value::from_json(text).unwrap();
        let hostile = value(r#"{"a\u001b": [1, {"b": "x\u202ey"}, "plain"], "n": null, "z": 1.5}"#);
        let shown = cleaned(&hostile).unwrap().to_json();
        assert!(!shown.contains(['\u{1b}', '\u{202e}']) && !shown.contains("\\u"), "{shown}");
        assert!(shown.contains(r#""plain""#) && shown.contains(r#""z":1.5"#), "{shown}");
        assert_eq!(cleaned(&value(r#"{"a": [1, {"b": "xy"}], "n": null}"#)), None);
    }
}
