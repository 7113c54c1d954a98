//! Tasks of servers (`io.modelcontextprotocol/tasks`): a call that a server answers with a task ends as a failure that
//! names the task, so that whoever keeps the run keeps the task first. The same call with the task then polls for it,
//! again after a crash.

use super::{
    CallOptions, MESSAGE_BYTES, Server, failed,
    input::{self, Required},
    wire::{Answer, error_text},
};
use opcell_types::{Failure, GivenInput, InputForm, InputRequest, text::one_line};
use rmcp::model::{ClientRequest, GetTaskParams, GetTaskRequest, UpdateTaskParams, UpdateTaskRequest};
use serde_json::Value as Json;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::{sleep, timeout};

/// The interval of polls: where a server names none, and the shortest and longest that it may name.
const POLL: Duration = Duration::from_secs(1);
const SHORTEST_POLL: Duration = Duration::from_millis(50);
const LONGEST_POLL: Duration = Duration::from_secs(30);

/// The time for which one task is polled in one attempt: the limits of a step and of a run are the usual bound.
const LONGEST_TASK: Duration = Duration::from_secs(24 * 3600);

/// Polls in succession that may get no answer: a server that is started again may know its tasks.
const MAX_LOST_POLLS: u32 = 5;

/// Bytes of the name of a task: it is kept in the journal of the run.
const ID_BYTES: usize = 1 << 10;

/// Bytes of a text of the server that a sentence repeats.
const QUOTED_BYTES: usize = 200;

/// The name of the task that a call became, if it became one.
///
/// # Errors
/// With the rest of a sentence about a task that cannot be asked for.
pub(super) fn id_in(result: &Json) -> Option<Result<Arc<str>, String>> {
    if result.get("resultType").and_then(Json::as_str) != Some("task") {
        return None;
    }
    Some(match result.get("taskId").and_then(Json::as_str) {
        Some(id) if !id.is_empty() && id.len() <= ID_BYTES => Ok(id.into()),
        Some(_) => Err(format!("began a task whose name is empty or has more than {ID_BYTES} bytes")),
        None => Err("began a task without a name".to_owned()),
    })
}

/// The interval until the next poll.
fn interval(task: &Json) -> Duration {
    let named = task.get("pollIntervalMs").and_then(Json::as_u64).map(Duration::from_millis);
    named.map_or(POLL, |named| named.clamp(SHORTEST_POLL, LONGEST_POLL))
}

impl Server {
    /// The failure of a call that continues as a task of the server: the run keeps its name, and makes the call again.
    pub(super) fn task(&self, tool: &str, task: Arc<str>) -> Failure {
        let message = format!("tool `{tool}` of MCP server `{}` continues as a task", self.name());
        self.waiting(tool, message, Vec::new(), task)
    }

    fn waiting(&self, tool: &str, message: String, forms: Vec<InputForm>, task: Arc<str>) -> Failure {
        let (server, tool) = (self.name().into(), tool.into());
        let request = InputRequest { server, tool, forms, state: None, task: Some(task) };
        failed("mcp-input-required", message, false).with_input(request)
    }

    /// Polls a task until it has ended, and returns the result of the call; or fails with what the task asks for.
    pub(super) async fn of_task(
        &self,
        tool: &str,
        task: &Arc<str>,
        given: &GivenInput,
        options: CallOptions<'_>,
    ) -> Result<Json, Failure> {
        let shown = one_line(task, QUOTED_BYTES);
        let refused = |reason: &str, why: String| {
            let server = self.name();
            failed(reason, format!("task `{shown}` of tool `{tool}` of MCP server `{server}` {why}"), false)
        };
        if !given.answers.is_empty() {
            let params = UpdateTaskParams::new(task.as_ref(), input::responses(given));
            let request = ClientRequest::UpdateTaskRequest(UpdateTaskRequest::new(params));
            // After a crash they may have come before: what the task says next decides.
            if let Answer::Lost(why) = self.polled(request).await? {
                tracing::debug!(server = self.name(), why, "answers for a task may not have come");
            }
        }
        let (began, mut lost) = (Instant::now(), 0);
        while began.elapsed() < LONGEST_TASK {
            let request = ClientRequest::GetTaskRequest(GetTaskRequest::new(GetTaskParams::new(task.as_ref())));
            let found = match self.polled(request).await {
                Ok(Answer::Result(found)) => found,
                Ok(Answer::Error(error)) => {
                    return Err(refused("mcp-error", format!("is lost: {}", error_text(&error, MESSAGE_BYTES))));
                }
                Ok(answer) if lost >= MAX_LOST_POLLS => return Err(self.no_result(answer)),
                Err(failure) if lost >= MAX_LOST_POLLS => return Err(failure),
                Ok(_) | Err(_) => {
                    lost += 1;
                    sleep(POLL * lost).await;
                    continue;
                }
            };
            lost = 0;
            match found.get("status").and_then(Json::as_str) {
                Some("completed") => {
                    return found
                        .get("result")
                        .cloned()
                        .ok_or_else(|| refused("malformed-result", "is completed and has no result".to_owned()));
                }
                Some("failed") => {
                    let why = found.get("error").map(|error| error_text(error, MESSAGE_BYTES)).unwrap_or_default();
                    return Err(refused("mcp-error", format!("failed: {why}")));
                }
                Some("cancelled") => return Err(refused("mcp-error", "was cancelled by its server".to_owned())),
                Some("input_required") if options.may_ask => {
                    let asked = serde_json::json!({
                        "resultType": "input_required", "inputRequests": found.get("inputRequests"),
                    });
                    match input::required(&asked) {
                        // What was answered a moment ago is not asked again before the task has read it.
                        Some(Required::Forms(forms, _)) if forms.iter().all(|form| is_answered(given, form)) => {}
                        Some(Required::Forms(forms, _)) => {
                            let forms: Vec<InputForm> =
                                forms.into_iter().filter(|form| !is_answered(given, form)).collect();
                            let question = forms.first().map_or("", |form| &form.message);
                            let message =
                                format!("tool `{tool}` of MCP server `{}` asks for input: {question}", self.name());
                            return Err(self.waiting(tool, message, forms, task.clone()));
                        }
                        Some(Required::Unusable(why)) => return Err(self.unusable_input(tool, &why)),
                        Some(Required::Again(_)) | None => {
                            return Err(self.unusable_input(tool, "asks for input and does not say for which"));
                        }
                    }
                }
                Some("working" | "input_required") => {}
                other => {
                    let status = one_line(other.unwrap_or_default(), QUOTED_BYTES);
                    return Err(refused("malformed-result", format!("has the unknown status `{status}`")));
                }
            }
            sleep(interval(&found)).await;
        }
        Err(refused("timeout", format!("has not ended within {} s", LONGEST_TASK.as_secs())))
    }

    async fn polled(&self, request: ClientRequest) -> Result<Answer, Failure> {
        let open = self.connection().await?;
        let limit = self.config().call_time;
        timeout(limit, open.request_of_task(request)).await.map_err(|_| {
            let message = format!("MCP server `{}` gave no answer within {} ms", self.name(), limit.as_millis());
            failed("timeout", message, true)
        })
    }
}

fn is_answered(given: &GivenInput, form: &InputForm) -> bool {
    given.answers.iter().any(|(key, _)| *key == form.key)
}
