//! The extension of tasks (`io.modelcontextprotocol/tasks`): a task is a run.
//!
//! The run is durable before its client learns of the task, so the client may poll for it after any crash. A run that
//! failed is a completed task with `isError`: `failed` is for errors of the protocol.

use super::{
    McpServer, asked,
    caller::Client,
    runs::now_ms,
    ticket::{Ticket, Use},
};
use crate::problem::Problem;
use opcell_engine::Status;
use opcell_journal::RunId;
use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolResponse, CreateTaskResult, DetailedTask, GetTaskResult, InputResponses, Task, TaskPayload, TaskStatus,
    },
    service::RequestContext,
};
use serde_json::Value as Json;

/// The interval at which a client should ask, in milliseconds.
const POLL_MS: u64 = 500;

impl McpServer {
    /// The answer to a call that became a task.
    pub(super) async fn task_created(&self, ticket: &Ticket, run: &RunId) -> Result<CallToolResponse, ErrorData> {
        let (task, ..) = self.task(ticket, run).await?;
        Ok(CreateTaskResult::new(task).into())
    }

    /// A task as its run stands, and the status of the run.
    async fn task(&self, ticket: &Ticket, run: &RunId) -> Result<(Task, Status), ErrorData> {
        let view = self.tenant.views.of(run).await.map_err(|problem| unread(&problem))?;
        let state = view.state();
        let began = state.started_at();
        let last = view.last().map_or(began, |last| last.at);
        let task = Task::new(ticket.text(), TaskStatus::Working, began.to_text(), last.to_text());
        Ok((task.with_poll_interval_ms(POLL_MS), state.status()))
    }

    /// The run of a task of this caller.
    async fn run_of(&self, task: &str, client: &Client) -> Result<(Ticket, RunId), ErrorData> {
        let ticket = Ticket::parse(Use::Task, task, now_ms()).ok_or_else(unknown)?;
        let run = ticket.run(&self.tenant.name, &client.name);
        let view = self.tenant.views.of(&run).await.map_err(|problem| unread(&problem))?;
        let offered = view.state().program().is_some_and(|program| self.workflows.contains(program.name().as_ref()));
        drop(view);
        if offered { Ok((ticket, run)) } else { Err(unknown()) }
    }

    pub(super) async fn task_now(
        &self,
        task: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let client = Client::of(context);
        let (ticket, run) = self.run_of(task, &client).await?;
        let (mut task, status) = self.task(&ticket, &run).await?;
        let payload = match status {
            Status::Completed | Status::Failed | Status::Blocked => {
                let result = serde_json::to_value(self.report(&run).await);
                let Ok(Json::Object(result)) = result else {
                    return Err(ErrorData::internal_error("the result of the run cannot be written", None));
                };
                TaskPayload::Completed { result }
            }
            Status::Cancelled => TaskPayload::Cancelled,
            Status::Suspended => {
                // A client that has no forms, or may not decide, waits for whoever does.
                let asked = if client.has_forms { self.asked(&run, &client).await } else { Vec::new() };
                if asked.is_empty() {
                    task = task.with_status_message(format!("run `{run}` waits for an answer from elsewhere"));
                    TaskPayload::Working
                } else {
                    TaskPayload::InputRequired { input_requests: asked::requests(&asked) }
                }
            }
            _ => {
                self.resume(&run);
                TaskPayload::Working
            }
        };
        Ok(GetTaskResult::new(DetailedTask::new(task, payload)))
    }

    pub(super) async fn task_answered(
        &self,
        task: &str,
        responses: InputResponses,
        context: &RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let client = Client::of(context);
        let (_, run) = self.run_of(task, &client).await?;
        self.answer(&run, responses, &client).await.map(drop)
    }

    pub(super) async fn task_cancelled(
        &self,
        task: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let client = Client::of(context);
        let (_, run) = self.run_of(task, &client).await?;
        self.cancel(&run, &client.name).await;
        Ok(())
    }
}

/// The error about a run that could not be read: one that is there all the same is not said to be missing.
fn unread(problem: &Problem) -> ErrorData {
    match problem.status {
        404 => unknown(),
        _ => ErrorData::internal_error(problem.detail.clone(), None),
    }
}

/// The same for a task that never was, that is another caller's, and that is of another tenant.
fn unknown() -> ErrorData {
    ErrorData::invalid_params("there is no such task", None)
}
