//! Calls: of operations and judges in cells, and of tools that run in none.

use super::{Catalog, Entry, Loaded, Offer, widen::granting};
use crate::{
    inner_calls::CellServices,
    replay::Record,
    services::{HTTP_FETCH, PluginServices},
    tools::DocumentTool,
};
use async_trait::async_trait;
use opcell_engine::{
    effect::AskedBecause,
    inner::InnerJournal,
    ports::{Call, Effects, Failure, Judges, Operations, Reply, Success, Verdict},
    receipt::{self, CallReceipt, LazyReceipt, Receipt},
    tool::{Tool, ToolInput},
};
use opcell_ir::ir::CapabilityNarrowing;
use opcell_sandbox::{Access, CellRequest, CellResult, HostServices, Manifest, Narrowing, Plugin, Tape};
use opcell_types::{
    Value,
    denial::{Capability, Remedy},
};
use std::{
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

/// The receipt of a cell.
#[derive(Debug)]
pub(crate) struct CellReceipt(pub(crate) opcell_sandbox::Receipt);

impl LazyReceipt for CellReceipt {
    fn to_value(&self) -> Value {
        // A receipt is made of texts and numbers under names; none of them is refused.
        Value::of(&self.0).unwrap_or_default()
    }

    fn host_calls(&self) -> Option<u64> {
        Some(self.0.host_calls.total().saturating_add(self.0.touched.inner_host_calls))
    }
}

impl Loaded {
    /// Returns `true` if the calls of tools are all that its cells change, so that a cell can be run again with their
    /// answers. Stores answer an attempt that is made again as they did before; files do not, and the requests of
    /// `wasi:http` are made side by side.
    fn is_resumable(&self) -> bool {
        let granted = self.plugin.policy().grants();
        let writes = granted.files.values().any(|files| files.access == Access::ReadWrite);
        let requests = self.plugin.surface().imports.iter().any(|import| import.starts_with("wasi:http/"));
        !(writes || requests || granted.tools.is_empty() || !granted.dangerous_preopens.is_empty())
    }
}

impl Entry {
    /// A plugin's sentence about this entry, with the name that it is called by.
    fn under_offered_name(&self, sentence: &str) -> String {
        sentence.replace(&format!("`{}`", self.own), &format!("`{}`", self.id))
    }
}

impl Catalog {
    /// The services of one cell.
    fn services(&self, own: &Arc<PluginServices>, inner: Option<&InnerJournal>) -> Arc<dyn HostServices> {
        let has_others = !own.project.is_empty() || inner.is_some();
        match self.this.get().filter(|_| has_others).and_then(Weak::upgrade) {
            Some(this) => Arc::new(CellServices::new(own.clone(), this, inner.cloned())),
            None => own.clone(),
        }
    }

    /// Calls a tool that runs in no cell.
    pub(crate) async fn call_tool(&self, tool: &dyn Tool, call: Call) -> Reply<Success> {
        let input = ToolInput::of_step(&call);
        let began = Instant::now();
        let Reply { result, receipt } = tokio::select! {
            reply = input.call(tool) => reply,
            () = call.cancel.cancelled() => Err(Failure::host("cancelled", "the call was cancelled")).into(),
            () = out_of_time(call.timeout_ms) => {
                let ms = call.timeout_ms.unwrap_or_default();
                let message = format!("the call has not ended within {ms} ms");
                Err(Failure::host("timeout", message).retriable()).into()
            }
        };
        let receipt = CallReceipt::of_tool(&call.id, Some(tool.provider()), &call.arguments)
            .ended(began.elapsed(), result.as_ref().map(receipt::bytes), receipt)
            .touching(call.touched.so_far())
            .to_receipt();
        Reply { result: result.map(|data| Success { data, summary: None, details: None }), receipt }
    }

    /// Runs one cell and turns what comes out into the engine's words.
    async fn cell<T, U>(
        &self,
        call: &Call,
        run: impl AsyncFnOnce(&Plugin, CellRequest<'_>) -> CellResult<T>,
        turn: fn(T) -> U,
    ) -> Reply<U> {
        let Some((entry, loaded)) = self.resolve(&call.id) else {
            let unknown = self.unknown(&call.id);
            return Reply { result: Err(Failure::host(unknown.code, unknown.message)), receipt: None };
        };
        // What was granted to another plugin of the run is not this one's, and what a journal says grants nothing to a
        // plugin whose project does not let it.
        let name = loaded.plugin.name();
        let is_its = |remedy: &&Remedy| (loaded.asks || is_of_call(remedy)) && remedy.plugin() == Some(name);
        let granted: Vec<Remedy> = call.granted.iter().filter(is_its).cloned().collect();
        let widened = match granted.as_slice() {
            [] => None,
            granted => match self.widened(name, granted).await {
                Ok(widened) => Some(widened),
                Err(failure) => return Reply { result: Err(failure), receipt: None },
            },
        };
        let loaded = widened.as_ref().unwrap_or(loaded);
        let in_tenant = match &call.context.tenant {
            None => None,
            Some(_) if widened.is_some() => {
                let message = "a person's grant applies to the project, and this run belongs to a tenant";
                return Err(Failure::host("not-granted", message)).into();
            }
            Some(tenant) => match self.in_tenant(loaded, tenant).await {
                Ok(found) => Some(found),
                Err(failure) => return Err(failure).into(),
            },
        };
        let arguments = call.arguments.to_json();
        let request = CellRequest {
            id: &entry.own,
            arguments: &arguments,
            value: Some(&call.arguments),
            context: call.context.clone(),
            narrowing: call.capabilities.as_deref().map(narrowing),
            timeout: call.timeout_ms.map(Duration::from_millis),
            cancel: call.cancel.clone(),
            host: self
                .services(in_tenant.as_ref().map_or(&loaded.services, |tenant| &tenant.services), call.inner.as_ref()),
            within: in_tenant.map(|tenant| tenant.context.clone()),
            tape: if loaded.recorded { Tape::Record } else { Tape::Off },
            timeline: call.inner.as_ref().map(InnerJournal::timeline),
        };
        let CellResult { result, mut receipt } = run(&loaded.plugin, request).await;
        // The plugin knows its operation by its own name only.
        let is_renamed = entry.id != entry.own;
        if is_renamed {
            receipt.operation = entry.id.shared().clone();
        }
        if let Some(sink) = &loaded.sink {
            sink.ended(&call.context, &receipt);
        }
        tracing::debug!(
            plugin = %receipt.plugin, operation = %receipt.operation, duration_us = receipt.duration_us,
            error = receipt.error.as_deref(), "called a plugin"
        );
        let recording = receipt.recording.take();
        let mut receipt = Receipt::deferred(CellReceipt(receipt));
        if let Some(recording) = recording {
            let judge = matches!(entry.offer, Offer::Judge { .. });
            if let Some(record) = Record::of(entry.own.shared(), judge, &call.of, *recording).to_value() {
                receipt = receipt.with_record(record);
            }
        }
        let result = result.map(turn).map_err(|error| {
            let failure = Failure::from(error);
            match is_renamed {
                true => Failure { message: entry.under_offered_name(&failure.message), ..failure },
                false => failure,
            }
        });
        Reply { result, receipt: Some(receipt) }
    }
}

#[async_trait]
impl Operations for Catalog {
    fn effects(&self, operation: &str) -> Option<Effects> {
        if let Some(document_tool) = self.tools.document_tool(operation) {
            return Some(document_tool.tool.effects());
        }
        self.operation_effects(operation)
    }

    fn asks(
        &self,
        operation: &str,
        refused: &Failure,
        receipt: Option<&Receipt>,
        is_resumed: bool,
    ) -> Option<AskedBecause> {
        let (entry, loaded) = self.resolve(operation)?;
        let denial = refused.denial.as_ref().filter(|denial| loaded.asks || is_of_call(&denial.remedy))?;
        granting(&denial.remedy).filter(|_| denial.remedy.plugin() == Some(loaded.plugin.name()))?;
        let once = matches!(entry.offer, Offer::Operation { effects: Effects::Once, .. });
        (!once || is_resumed || has_done_nothing(receipt?)).then(|| reason(loaded.plugin.manifest(), &denial.remedy))
    }

    fn is_resumable(&self, operation: &str) -> bool {
        let is_tool = self.tools.document_tool(operation).is_some();
        !is_tool && self.resolve(operation).is_some_and(|(_, loaded)| loaded.is_resumable())
    }

    async fn invoke(&self, call: Call) -> Reply<Success> {
        if let Some(DocumentTool { tool, .. }) = self.tools.document_tool(&call.id) {
            return self.call_tool(tool.as_ref(), call).await;
        }
        self.cell(
            &call,
            async |plugin, request| plugin.invoke(request).await,
            |success| Success { data: success.data, summary: success.summary, details: success.details },
        )
        .await
    }
}

#[async_trait]
impl Judges for Catalog {
    fn knows(&self, judge: &str) -> bool {
        self.resolve(judge).is_some_and(|(entry, _)| matches!(entry.offer, Offer::Judge { .. }))
    }

    async fn judge(&self, call: Call) -> Reply<Verdict> {
        self.cell(&call, async |plugin, request| plugin.judge(request).await, |verdict| verdict).await
    }
}

/// Returns `true` if a person approves one call of a tool, which the project lets the plugin call.
fn is_of_call(remedy: &Remedy) -> bool {
    matches!(remedy, Remedy::ApproveCall { .. })
}

/// Why a plugin says that it needs something.
fn reason(manifest: &Manifest, remedy: &Remedy) -> Arc<str> {
    let (requests, name) = match remedy {
        Remedy::Grant { capability: Capability::Skill, name, .. } => (&manifest.skills, name.as_str()),
        Remedy::Grant { capability: Capability::Store, name, .. } => (&manifest.stores, name.as_str()),
        Remedy::Grant { name, .. } | Remedy::ApproveCall { tool: name, .. } => (&manifest.tools, name.as_str()),
        _ => (&manifest.tools, HTTP_FETCH),
    };
    let request = requests.iter().find(|request| request.name == name);
    request.map_or_else(|| "".into(), |request| request.reason.as_str().into())
}

/// Returns `true` if a cell reached nothing, so that calling it again repeats nothing: requests, files and keys are
/// touched, every call of a tool was refused, and the rest (its log, clocks, randomness, skills) changes nothing.
fn has_done_nothing(receipt: &Receipt) -> bool {
    let denials = receipt.get("denials").and_then(Value::as_array).map_or(0, <[Value]>::len) as u64;
    let called = match receipt.get("host-calls").and_then(|calls| calls.get("tools")) {
        Some(Value::Number(calls)) => calls.as_u64().unwrap_or(u64::MAX),
        _ => 0,
    };
    receipt.get("touched").is_none() && receipt.host_calls().is_some() && called <= denials
}

/// Ends when a call's time is up; never, for one without.
async fn out_of_time(timeout_ms: Option<u64>) {
    match timeout_ms {
        Some(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
        None => std::future::pending().await,
    }
}

fn narrowing(capabilities: &CapabilityNarrowing) -> Narrowing {
    let set = |names: &Option<Vec<String>>| names.as_ref().map(|names| names.iter().cloned().collect());
    let CapabilityNarrowing { tools, skills, files, stores } = capabilities;
    Narrowing { tools: set(tools), skills: set(skills), files: set(files), stores: set(stores) }
}
