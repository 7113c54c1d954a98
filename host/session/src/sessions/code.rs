//! Sessions whose models call tools by programs: which tools those are, and the calls of the one tool that runs them.

use super::open::Allowed;
use super::{HostSessions, failure};
use crate::code::{Declarations, MAX_BYTES, Program, RUN_CODE, SessionTools, declare, description, instructions};
use crate::prompt::CodePart;
use crate::tools::{DELEGATE_TOOL, InPrograms, mismatch};
use opcell_engine::approval::ToolApproval;
use opcell_engine::call::CodeTools;
use opcell_engine::inner::InnerJournal;
use opcell_engine::ports::{Failure, OpenSession, Reply, ToolCall};
use opcell_engine::receipt::{CallReceipt, Provider};
use opcell_ir::ir::{CodeMode, Session};
use opcell_types::{ToolDescription, Value};
use std::sync::Arc;
use std::time::Instant;

/// The plugin whose cells programs of a language run in, for receipts.
fn plugin(language: CodeMode) -> &'static str {
    if language == CodeMode::Python { "python" } else { "code" }
}

/// The most of a program's log that a failure repeats, in bytes.
const MAX_FAILURE_LOG: usize = 2_000;

/// The tools that a model calls by programs, and what its prompt says about them.
pub(super) struct ByCode {
    pub(super) part: CodePart,
    pub(super) tools: CodeTools,
}

impl HostSessions {
    /// Takes the tools that programs call out of `tools`, and puts the one that runs programs in; `None` for a session
    /// without programs.
    ///
    /// A model calls itself what starts a run, ends the conversation, or belongs to the engine, and what a person may
    /// have to approve: that one is called both ways. The project may say otherwise of a tool.
    pub(super) fn by_code(
        &self,
        settings: &Session,
        tools: &mut Vec<Allowed>,
        engine_tools: &[ToolDescription],
        approvals: &[ToolApproval],
    ) -> Result<Option<ByCode>, Failure> {
        let Some(language @ (CodeMode::Javascript | CodeMode::Python)) = settings.code else { return Ok(None) };
        if self.programs.is_none() {
            return Err(failure("code-unavailable", "this host runs no programs: leave `code` out of the session"));
        }
        if tools.iter().any(|tool| tool.description.name == RUN_CODE) {
            let message = format!("the session calls tools by programs, and has a tool `{RUN_CODE}` of its own");
            return Err(failure("tool-clash", message));
        }
        let may_ask = |rules: &ToolApproval| rules.rules.rules().iter().any(|rule| rule.ask.applies_to(rules.effects));
        let asks = |name: &str| approvals.iter().any(|rules| rules.tool == name && may_ask(rules));
        let place = |name: &str| self.tools.find(name).map_or(InPrograms::Usual, |offered| offered.in_programs);
        let is_direct = |name: &str| {
            place(name) == InPrograms::Never
                || name == DELEGATE_TOOL
                || settings.agents.contains_key(name)
                || settings.final_tool.as_deref() == Some(name)
                || engine_tools.iter().any(|tool| tool.name == name)
        };
        let name = |tool: &Allowed| tool.description.name.clone();
        let in_code: Vec<ToolDescription> =
            tools.iter().filter(|tool| !is_direct(&name(tool))).map(|tool| tool.description.clone()).collect();
        let asking: Vec<&str> = in_code.iter().map(|tool| tool.name.as_str()).filter(|name| asks(name)).collect();
        let waits = self.programs.as_ref().is_some_and(|programs| programs.are_resumable());
        let part = CodePart {
            text: instructions(language, &in_code, &asking, waits),
            reads: in_code.iter().any(|tool| tool.name == "read"),
        };
        let is_asked = |name: &str| asks(name) && place(name) != InPrograms::Only;
        tools.retain(|tool| is_direct(&name(tool)) || is_asked(&name(tool)));
        tools.insert(
            0,
            Allowed { description: description(language, None), lambda: Some("program → result".to_owned()) },
        );
        Ok(Some(ByCode { part, tools: CodeTools { language, tools: in_code } }))
    }

    /// The declarations that the model of a session reads; asks the tools of others what they are.
    ///
    /// # Errors
    /// When the session declares what is not there.
    pub async fn declarations(&self, request: &OpenSession) -> Result<Declarations, Failure> {
        let current = self.current_tools(request).await?;
        let code = self.assemble(request, &current)?.code;
        let (language, tools) = code.map_or((CodeMode::Off, Vec::new()), |code| (code.language, code.tools));
        Ok(declare(language, &tools, MAX_BYTES))
    }

    /// Runs the program that a model calls its tools by. The program's calls are in its receipt, and count as calls of
    /// the session.
    pub(super) async fn run_code(&self, call: &ToolCall, code: &CodeTools) -> Reply<Value> {
        let began = Instant::now();
        let provider = Some(Provider::Plugin(plugin(code.language).into()));
        let receipt = CallReceipt::of_tool(RUN_CODE, provider, &call.request.arguments);
        let tools = Arc::new(SessionTools::new(self.tools.clone(), code, call));
        let mut reply = match self.program(call, code.language, tools.clone()) {
            Err(refused) => Err(refused).into(),
            Ok((programs, program)) => programs.run(program).await,
        };
        let mut result = reply.result.map(shown).map_err(with_log);
        let (bytes, is_cut) = result.as_mut().map_or((0, false), |value| self.tools.cut(&call.session, value));
        let ended = receipt
            .ended(began.elapsed(), result.as_ref().map(|_| bytes as u64), reply.receipt.take())
            .with_inner_calls(tools.made())
            .truncated(is_cut);
        Reply { result, receipt: ended.to_receipt() }
    }

    fn program(
        &self,
        call: &ToolCall,
        language: CodeMode,
        tools: Arc<SessionTools>,
    ) -> Result<(&dyn crate::code::Programs, Program), Failure> {
        let programs = self.programs.as_deref();
        let programs = programs.ok_or_else(|| failure("code-unavailable", "this host runs no programs"))?;
        let arguments = &call.request.arguments;
        let is_whole = arguments.as_object().is_some_and(|given| given.len() == 1);
        let Some(source) = arguments.get("source").and_then(Value::as_str).filter(|_| is_whole) else {
            return Err(mismatch(RUN_CODE, &["expected an object of one text, `source`".to_owned()]));
        };
        let (context, cancel) = (call.context.clone(), call.cancel.clone());
        let timeline = call.inner.as_ref().map(InnerJournal::timeline);
        let (source, input) = (source.to_owned(), Value::Null);
        Ok((programs, Program { language, source, input, context, cancel, timeline, tools }))
    }
}

/// The result of a program as its model reads it: with the log where there is one.
fn shown(data: Value) -> Value {
    let result = data.get("result").cloned().unwrap_or(Value::Null);
    match data.get("logs") {
        Some(logs) if logs.as_array().is_some_and(|lines| !lines.is_empty()) => {
            Value::object([("result", result), ("logs", logs.clone())])
        }
        _ => Value::object([("result", result)]),
    }
}

/// The failure of a program with the end of its log, which a model needs to correct it.
fn with_log(failure: Failure) -> Failure {
    let logs = failure.details.as_ref().and_then(|details| details.get("logs")).and_then(Value::as_array);
    let lines: Vec<&str> = logs.unwrap_or_default().iter().filter_map(Value::as_str).collect();
    if lines.is_empty() {
        return failure;
    }
    let log = lines.join("\n");
    let end = log.split_at(log.ceil_char_boundary(log.len().saturating_sub(MAX_FAILURE_LOG))).1;
    Failure { message: format!("{}\nlog:\n{end}", failure.message), ..failure }
}
