//! Runs that tools start: followed until they end or ask for something, and reported.

use super::{
    McpServer,
    asked::{self, Answer, Asked},
    caller::Client,
    progress::{ProgressNotifier, share},
    refused,
    ticket::{Ticket, Use},
    tools,
};
use crate::{
    api::{PARK, Start, begin},
    problem::Problem,
};
use opcell::{RunText, standing::asked as in_short, trace::TraceContext};
use opcell_engine::{
    MESSAGE_SIGNAL, Message, ResumeOptions, RunError, Sender, Status, large::ELIDED, outcome::Question,
};
use opcell_journal::RunId;
use opcell_types::{NewRunId, Value, text::one_line};
use rmcp::{
    ErrorData, RoleServer,
    model::{CallToolResponse, CallToolResult, ContentBlock, InputRequiredResult, InputResponses, MetaObject},
    service::RequestContext,
};
use serde_json::{Map, Value as Json, json};
use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// The time for which a tool waits for the run that it started.
const WAIT: Duration = Duration::from_secs(50);

/// The time for which a client that has tasks waits for the result itself: most calls are over before it would poll.
const TASK_WAIT: Duration = Duration::from_millis(250);

/// The interval at which a run that is followed is checked for a driver, where no worker does it.
const RESUME: Duration = Duration::from_secs(2);

/// The time for which the state of a request is accepted, from the start of its run.
const STATE_MS: u64 = 7 * 24 * 3600 * 1000;

/// Answers of one request.
const MAX_ANSWERS: usize = 64;

/// Bytes of a question's text.
const MAX_QUESTION_BYTES: usize = 500;

/// Bytes of JSON of a result that is given as a tree, which takes many times as much.
const MAX_RESULT_BYTES: u64 = 16 << 20;

/// A question in a few words, with its text.
fn asked_in_full(question: &Question) -> String {
    match question {
        Question::Signal { question: Some(text), .. } => {
            format!("{}: {}", in_short(question), one_line(text, MAX_QUESTION_BYTES))
        }
        Question::Input { message, .. } => {
            format!("{}: {}", in_short(question), one_line(message, MAX_QUESTION_BYTES))
        }
        _ => in_short(question),
    }
}

/// A run's result, or `…`: that of a journal from elsewhere may expand to more than anyone reads.
fn shown(result: &Value) -> Json {
    match result.measure().bytes() {
        ..=MAX_RESULT_BYTES => Json::from(result),
        _ => Json::from(ELIDED),
    }
}

/// Milliseconds since 1970.
pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl McpServer {
    /// Starts a workflow: as a task for a client that has them, else followed for a while.
    pub(super) async fn start(
        &self,
        workflow: &str,
        input: Value,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let client = Client::of(context);
        let ticket = match (client.has_tasks, client.is_current && client.has_forms) {
            (true, _) => Some(Ticket::new(Use::Task, u64::MAX)),
            (false, true) => Some(Ticket::new(Use::RequestState, now_ms().saturating_add(STATE_MS))),
            (false, false) => None,
        };
        let ticket = ticket.transpose().map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        let run = ticket.as_ref().map(|ticket| NewRunId::derived(ticket.run(&self.tenant.name, &client.name)));
        let traceparent = context.meta.get_traceparent().filter(|text| TraceContext::parse(text).is_some());
        let start = Start { workflow, input, run, idempotent: false, traceparent: traceparent.map(Arc::from) };
        let run = match begin(&self.tenant, start).await {
            Ok((run, _)) => run,
            Err(problem) => return Ok(refused(&problem).into()),
        };
        match ticket {
            Some(ticket) if client.has_tasks => {
                self.follow(&run, TASK_WAIT, true, &[], context).await;
                let view = self.tenant.views.of(&run).await;
                let has_ended = view.is_ok_and(|view| view.state().status().has_ended());
                if has_ended { Ok(self.report(&run).await.into()) } else { self.task_created(&ticket, &run).await }
            }
            ticket => {
                self.follow(&run, WAIT, true, &[], context).await;
                self.answered_or_asked(&run, ticket.as_ref(), &client, true).await
            }
        }
    }

    /// Follows the run of a request that was answered with questions, after its client has answered them.
    pub(super) async fn again(
        &self,
        workflow: &str,
        state: &str,
        responses: InputResponses,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let client = Client::of(context);
        let unknown = || ErrorData::invalid_params("this server did not issue this `requestState` for this call", None);
        let ticket = Ticket::parse(Use::RequestState, state, now_ms()).ok_or_else(unknown)?;
        let run = ticket.run(&self.tenant.name, &client.name);
        let is_its = match self.tenant.views.of(&run).await {
            Ok(view) => view.state().program().is_some_and(|program| **program.name() == *workflow),
            Err(_) => false,
        };
        if !is_its {
            return Err(unknown());
        }
        let answers = self.answer(&run, responses, &client).await?;
        self.follow(&run, WAIT, false, &answers.sent, context).await;
        self.answered_or_asked(&run, Some(&ticket), &client, !answers.left_open).await
    }

    /// The result of a run that has ended; its questions, if the client may answer some; else how it stands.
    async fn answered_or_asked(
        &self,
        run: &RunId,
        ticket: Option<&Ticket>,
        client: &Client,
        asks: bool,
    ) -> Result<CallToolResponse, ErrorData> {
        if let Some(ticket) = ticket.filter(|_| asks && client.is_current && client.has_forms) {
            let asked = self.asked(run, client).await;
            if !asked.is_empty() {
                let requests = asked::requests(&asked);
                return Ok(InputRequiredResult::new(Some(requests), Some(ticket.text())).into());
            }
        }
        Ok(self.report(run).await.into())
    }

    /// The questions of a suspended run that a client may answer.
    pub(super) async fn asked(&self, run: &RunId, client: &Client) -> Vec<Asked> {
        // What a run from elsewhere asks was decided by whoever made it.
        if self.tenant.host.engine().journal().is_from_elsewhere(run) {
            return Vec::new();
        }
        let Ok(view) = self.tenant.views.of(run).await else { return Vec::new() };
        let state = view.state();
        if state.status() != Status::Suspended {
            return Vec::new();
        }
        let (mut questions, signals) = (state.questions(), state.signals());
        // What is an approval of another step is refused of a client who may not approve.
        questions.retain(|question| match question {
            Question::Signal { name, approval: false, .. } => client.may_approve() || !signals.approvals.contains(name),
            _ => true,
        });
        asked::asked(&questions, client)
    }

    /// Sends the answers of a client to its run. What is not asked any more was answered by someone: it is left out.
    ///
    /// # Errors
    /// When an answer does not fit its question: then none is sent.
    pub(super) async fn answer(
        &self,
        run: &RunId,
        responses: InputResponses,
        client: &Client,
    ) -> Result<Answers, ErrorData> {
        if responses.len() > MAX_ANSWERS {
            return Err(ErrorData::invalid_params(format!("there are more than {MAX_ANSWERS} answers"), None));
        }
        let asked = self.asked(run, client).await;
        let mut given = Vec::new();
        for (id, said) in &responses {
            let Some(asked) = asked.iter().find(|asked| *asked.id == **id) else { continue };
            let answer = asked.answer(said).map_err(|wrong| ErrorData::invalid_params(wrong, None))?;
            given.push((asked.id.clone(), answer));
        }
        let mut answers = Answers::default();
        let (host, by) = (self.tenant.host.now(), Some(client.name.clone()));
        for (id, answer) in given {
            let sent = match answer {
                Answer::Open => {
                    answers.left_open = true;
                    continue;
                }
                Answer::Approval(data) => host.engine().answer(run, &id, data, by.clone()).await.map(drop),
                Answer::Grant(effect, grant) => {
                    let (by, question) = (by.clone(), Some(id.clone()));
                    let message = Message::Grant { effect: Some(effect), grant, question, by };
                    host.engine().send(run, &message).await
                }
                Answer::Form(answer) => {
                    let from = Some("mcp".into());
                    host.engine().answer_input(run, &id, &answer, by.clone(), from).await
                }
                Answer::Signal(name, data) => {
                    let key = Some(format!("answer:{id}").into());
                    let sender = Sender { by: by.clone(), key, may_approve: client.may_approve() };
                    host.engine().signal_from(run, &name, data, sender).await.map(drop)
                }
            };
            self.tenant.feeds.answered(run);
            match sent {
                Ok(()) => answers.sent.push(id),
                // Someone else was first.
                Err(RunError::AlreadyAnswered { .. } | RunError::NotAsked { .. } | RunError::Ended { .. }) => {}
                Err(RunError::AnswerNotTaken { problem, .. }) => {
                    return Err(ErrorData::invalid_params(
                        format!("the answer to `{id}` is not taken: {problem}"),
                        None,
                    ));
                }
                Err(error) => return Err(ErrorData::internal_error(error.to_string(), None)),
            }
        }
        if !answers.sent.is_empty() {
            self.resume(run);
        }
        Ok(answers)
    }

    /// Drives a run that has no driver. Where a worker does that, nothing happens.
    pub(super) fn resume(&self, run: &RunId) {
        if !self.drives {
            return;
        }
        let (tenant, run) = (self.tenant.clone(), run.clone());
        drop(tokio::spawn(async move {
            let Ok(_permit) = tenant.started.clone().try_acquire_owned() else { return };
            let sink = Some(tenant.answers.of(&run) as Arc<dyn RunText>);
            let options = ResumeOptions { detach: true, park: Some(PARK), sink, ..ResumeOptions::default() };
            match tenant.host.now().resume(&run, options).await {
                Ok(driven) => drop(driven.finished().await),
                // Most often another one drives it.
                Err(error) => tracing::debug!(%run, %error, "a run is not resumed here"),
            }
        }));
    }

    /// Waits for a run while it does something, and does not ask for what was not answered yet.
    pub(super) async fn follow(
        &self,
        run: &RunId,
        wait: Duration,
        owns: bool,
        answered: &[Arc<str>],
        context: &RequestContext<RoleServer>,
    ) {
        let mut told = ProgressNotifier::of(context);
        let mut calls = self.tenant.answers.progress(run);
        let mut reader = self.tenant.feeds.reader(run.clone(), 0);
        let following = async {
            let mut entered = 0.0;
            loop {
                let next = tokio::select! {
                    biased;
                    next = reader.next() => next,
                    found = calls.next() => {
                        for progress in found {
                            told.tell(entered + share(&progress), None, Some(progress.to_string())).await;
                        }
                        continue;
                    }
                };
                if !matches!(next, Ok(Some(_))) {
                    break;
                }
                for step in reader.entered() {
                    entered += 1.0;
                    told.tell(entered, None, Some(format!("step {step}"))).await;
                }
                if self.is_settled(run, answered).await {
                    break;
                }
            }
        };
        let resuming = async {
            // A driver that was about to leave a run does not see what it is sent.
            if !self.drives {
                return std::future::pending::<()>().await;
            }
            loop {
                tokio::time::sleep(RESUME).await;
                if !self.is_settled(run, answered).await {
                    self.resume(run);
                }
            }
        };
        let cancelled = tokio::select! {
            () = following => false,
            () = resuming => false,
            () = tokio::time::sleep(wait) => false,
            () = context.ct.cancelled() => true,
        };
        if cancelled && owns {
            self.cancel(run, &Client::of(context).name).await;
        }
    }

    /// Asks a run to end.
    pub(super) async fn cancel(&self, run: &RunId, by: &str) {
        let reason = "cancelled by the client of the tool".into();
        let message = Message::Cancel { reason, by: Some(by.into()) };
        let _ = self.tenant.host.engine().send(run, &message).await;
        self.tenant.feeds.answered(run);
        self.resume(run);
    }

    /// Returns `true` if a run has ended, or waits for something else than what was answered.
    async fn is_settled(&self, run: &RunId, answered: &[Arc<str>]) -> bool {
        let Ok(view) = self.tenant.views.of(run).await else { return true };
        let state = view.state();
        match state.status() {
            Status::Suspended => !answered.iter().any(|id| state.asks(id)),
            status => status.has_ended(),
        }
    }

    pub(super) async fn report(&self, run: &RunId) -> CallToolResult {
        let (outcome, questions, receipts) = match self.tenant.views.of(run).await {
            Ok(view) => (view.state().outcome(), view.state().questions(), view.receipts().collect()),
            Err(problem) => return refused(&problem),
        };
        let text = match outcome.status {
            Status::Completed if outcome.result.measure().bytes() > MAX_RESULT_BYTES => ELIDED.to_owned(),
            Status::Completed => outcome.result.as_str().map_or_else(|| outcome.result.to_json(), str::to_owned),
            Status::Failed | Status::Blocked | Status::Cancelled => {
                let reason = outcome.reason.as_deref().unwrap_or("failed");
                format!("{reason}: {}", outcome.message.as_deref().unwrap_or_default())
            }
            status => {
                let asked: Vec<String> = questions.iter().map(asked_in_full).collect();
                let waits =
                    if asked.is_empty() { String::new() } else { format!(": it waits for {}", asked.join(", ")) };
                format!("run `{run}` is {status}{waits}; ask for it again with the tool `{}`", tools::RUN)
            }
        };
        let mut result = match outcome.status {
            Status::Failed | Status::Blocked | Status::Cancelled => {
                CallToolResult::error(vec![ContentBlock::text(text)])
            }
            _ => CallToolResult::success(vec![ContentBlock::text(text)]),
        };
        result.structured_content = Some(json!({
            "run": run, "status": outcome.status, "result": shown(&outcome.result), "questions": questions,
        }));
        let receipts = self.receipts(run, receipts).await;
        result.meta = Some(MetaObject(Map::from_iter([
            ("opcell/run".to_owned(), json!(run)),
            ("opcell/used".to_owned(), json!(outcome.used)),
            ("opcell/receipts".to_owned(), Json::Array(receipts)),
        ])));
        result
    }

    /// The receipts that these events brought.
    async fn receipts(&self, run: &RunId, events: Vec<u64>) -> Vec<Json> {
        let events = self.tenant.views.events(run, events).await.unwrap_or_default();
        events.values().filter_map(|recorded| Some(Json::from(&**recorded.event.receipt()?))).collect()
    }

    /// Looks at a run of one of the offered workflows, and perhaps says something to it.
    pub(super) async fn look(&self, arguments: &Value, context: &RequestContext<RoleServer>) -> CallToolResult {
        let wrong = |text: String| CallToolResult::error(vec![ContentBlock::text(text)]);
        let Some(run) = arguments.get("run").and_then(Value::as_str) else {
            return wrong("`run` must be the ID of a run".to_owned());
        };
        let run: RunId = run.into();
        let offered = match self.tenant.views.of(&run).await {
            Ok(view) => {
                let is_offered = |name: &str| self.workflows.contains(name);
                view.state().program().is_some_and(|program| is_offered(program.name().as_ref()))
            }
            Err(problem) => return wrong(problem.detail),
        };
        if !offered {
            return wrong(format!("the journal has no run `{run}`"));
        }
        if let Some(message) = arguments.get("message").and_then(Value::as_str) {
            let client = Client::of(context);
            let may_approve = client.may_approve();
            let sender = Sender { by: Some(client.name), key: None, may_approve };
            let engine = self.tenant.host.engine();
            if let Err(error) = engine.signal_from(&run, &MESSAGE_SIGNAL.into(), message.into(), sender).await {
                return wrong(Problem::from(error).detail);
            }
            self.tenant.feeds.answered(&run);
            self.resume(&run);
        }
        self.follow(&run, WAIT, false, &[], context).await;
        self.report(&run).await
    }
}

/// The result of sending a client's answers.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// The questions that were answered.
    pub(super) sent: Vec<Arc<str>>,
    /// `true` if the user left a question open.
    pub(super) left_open: bool,
}
