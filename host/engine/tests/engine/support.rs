//! A world in a script: operations, judges, models and time that do what a test says, and remember what they were
//! asked.

use async_trait::async_trait;
use opcell_engine::{
    Engine, Event, Next, Ports, Program, Recorded, RunOptions, RunOutcome, State,
    approval::ToolApproval,
    conversation::{Message, ToolCallRequest, Usage},
    decide,
    event::{EffectReply, Timestamp},
    outcome::Used,
    perform::perform,
    ports::{
        Call, Effects, Failure, Judges, ModelReply, ModelRound, OpenSession, OpenedSession, Operations, Reply,
        Sessions, Success, TextSink, Timer, ToolCall, Verdict, Workflows,
    },
    receipt::{Provider, of_started_run},
};
use opcell_ir::{WorkflowIr, ir::RunLimits, names::Outcome};
use opcell_types::{ToolDescription, Value};
use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering},
    },
};

type Operation = Box<dyn Fn(&Call) -> Result<Value, Failure> + Send + Sync>;

/// The effects on the world outside.
#[derive(Default)]
pub struct World {
    operations: HashMap<String, (Effects, Operation)>,
    judges: HashMap<String, VecDeque<Outcome>>,
    workflows: HashMap<String, Arc<WorkflowIr>>,
    answers: VecDeque<Result<Message, Failure>>,
    answer: Option<fn(&ModelRound) -> Message>,
    tools: HashMap<String, Value>,
    tool_seconds: i64,
    receipt: Option<&'static str>,
    /// Tools that change nothing.
    pub parallel_tools: Vec<String>,
    /// Operations that each turn is shown to.
    pub augmenters: Vec<String>,
    /// Tools whose calls must not be repeated.
    pub once: Vec<String>,
    pub calls: Vec<(String, Value)>,
    /// The rest of the limits of each tool call.
    pub left: Vec<RunLimits>,
    pub keys: Vec<String>,
    pub rounds: Vec<ModelRound>,
    pub opened: Vec<OpenSession>,
    pub sleeps: Vec<f64>,
}

#[derive(Clone, Default)]
pub struct Script(pub Arc<Mutex<World>>, Arc<AtomicI64>);

pub fn failure(reason: &str, message: &str) -> Failure {
    Failure::host(reason, message)
}

pub fn retriable(reason: &str, message: &str) -> Failure {
    Failure { retriable: true, ..failure(reason, message) }
}

pub fn json(text: &str) -> Value {
    Value::from_json(text).unwrap()
}

pub fn program(text: &str) -> Arc<Program> {
    let ir: WorkflowIr = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}"));
    Program::new(Arc::new(ir)).unwrap()
}

/// A routed workflow called `w` with these steps.
pub fn routed(steps: &str) -> Arc<Program> {
    program(&format!(r#"{{"version":"workflow-ir/v1","name":"w","steps":[{steps}]}}"#))
}

/// A sequential workflow called `w` with these steps and outputs.
pub fn sequential(steps: &str, outputs: &str) -> Arc<Program> {
    program(&format!(
        r#"{{"version":"workflow-ir/v1","name":"w","dialect":{{"printing":"javascript","lifecycle":"sequential"}},"outputs":{outputs},"steps":[{steps}]}}"#
    ))
}

impl World {
    /// Sets the model's answers, round by round.
    pub fn script(&mut self, answers: impl IntoIterator<Item = Message>) {
        self.answers.extend(answers.into_iter().map(Ok));
    }
}

impl Script {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn operation(self, id: &str, run: impl Fn(&Call) -> Result<Value, Failure> + Send + Sync + 'static) -> Self {
        self.operation_with(id, Effects::Idempotent, run)
    }

    pub fn operation_with(
        self,
        id: &str,
        effects: Effects,
        run: impl Fn(&Call) -> Result<Value, Failure> + Send + Sync + 'static,
    ) -> Self {
        self.world().operations.insert(id.to_owned(), (effects, Box::new(run)));
        self
    }

    /// An operation that gives these, one after the other.
    pub fn gives(self, id: &str, results: impl IntoIterator<Item = Result<Value, Failure>>) -> Self {
        let results = Mutex::new(results.into_iter().collect::<VecDeque<_>>());
        self.operation(id, move |call| {
            results
                .lock()
                .unwrap()
                .pop_front()
                .unwrap_or_else(|| Err(failure("script", &format!("{} was called once too often", call.id))))
        })
    }

    pub fn judge(self, id: &str, outcomes: impl IntoIterator<Item = Outcome>) -> Self {
        self.world().judges.insert(id.to_owned(), outcomes.into_iter().collect());
        self
    }

    pub fn workflow(self, program: &Arc<Program>) -> Self {
        self.world().workflows.insert(program.name().to_string(), program.ir().clone());
        self
    }

    pub fn says(self, texts: impl IntoIterator<Item = &'static str>) -> Self {
        self.world().answers.extend(texts.into_iter().map(|text| Ok(Message::assistant(text))));
        self
    }

    pub fn calls_tool(self, id: &str, tool: &str, arguments: &str) -> Self {
        let mut message = Message::assistant("");
        message.tool_calls =
            vec![ToolCallRequest { id: id.to_owned(), name: tool.to_owned(), arguments: json(arguments) }];
        self.world().answers.push_back(Ok(message));
        self
    }

    /// A model that looks at nothing but the conversation.
    pub fn answers(self, answer: fn(&ModelRound) -> Message) -> Self {
        self.world().answer = Some(answer);
        self
    }

    pub fn model_fails(self, failure: Failure) -> Self {
        self.world().answers.push_back(Err(failure));
        self
    }

    pub fn tool(self, name: &str, result: &str) -> Self {
        self.world().tools.insert(name.to_owned(), json(result));
        self
    }

    /// Sets the receipt of every call of an operation.
    pub fn leaves(self, receipt: &'static str) -> Self {
        self.world().receipt = Some(receipt);
        self
    }

    /// Every tool call takes so long.
    pub fn tools_take(self, seconds: i64) -> Self {
        self.world().tool_seconds = seconds;
        self
    }

    /// Lets time pass, in microseconds.
    pub fn passes(&self, micros: i64) {
        self.1.fetch_add(micros, Ordering::SeqCst);
    }

    pub fn world(&self) -> std::sync::MutexGuard<'_, World> {
        self.0.lock().unwrap()
    }

    pub fn called(&self) -> Vec<String> {
        self.world().calls.iter().map(|(id, arguments)| format!("{id} {}", arguments.to_json())).collect()
    }

    pub fn ports(&self) -> Ports {
        let this = Arc::new(self.clone());
        Ports {
            operations: this.clone(),
            judges: this.clone(),
            sessions: this.clone(),
            workflows: this.clone(),
            timer: this,
        }
    }

    pub fn engine(&self) -> Engine {
        let ports = self.ports();
        Engine::builder()
            .operations(ports.operations)
            .judges(ports.judges)
            .sessions(ports.sessions)
            .workflows(ports.workflows)
            .timer(ports.timer)
            .build()
    }

    /// Runs to the end, checks on the way that the journal is the state, and that deciding again decides the same.
    pub async fn run(&self, program: &Arc<Program>, input: &str) -> RunOutcome {
        self.run_with(program, input, RunOptions { detach: true, ..RunOptions::default() }).await
    }

    pub async fn run_with(&self, program: &Arc<Program>, input: &str, options: RunOptions) -> RunOutcome {
        let engine = self.engine();
        let handle = engine.start(program.clone(), json(input), options).await.unwrap();
        let outcome = handle.finished().await.unwrap();
        check_history(&engine, &outcome).await;
        outcome
    }
}

/// An answer that makes these calls, each a tool and its arguments.
pub fn calling(calls: &[(&str, &str)]) -> Message {
    let request = |(at, (name, arguments)): (usize, &(&str, &str))| ToolCallRequest {
        id: format!("c{at}"),
        name: (*name).to_owned(),
        arguments: json(arguments),
    };
    Message { tool_calls: calls.iter().enumerate().map(request).collect(), ..Message::assistant("") }
}

/// The journal gives the outcome again, and today's code decides what it decided.
pub async fn check_history(engine: &Engine, outcome: &RunOutcome) {
    let state = engine.state_at(&outcome.run, None).await.unwrap();
    assert_eq!(&state.outcome(), outcome, "the journal's state is not the live one");
    assert_eq!(engine.replay(&outcome.run).await.unwrap(), None, "deciding again decides otherwise");
}

#[async_trait]
impl Operations for Script {
    fn effects(&self, operation: &str) -> Option<Effects> {
        self.world().operations.get(operation).map(|(effects, _)| *effects)
    }

    async fn invoke(&self, call: Call) -> Reply<Success> {
        let mut world = self.world();
        world.calls.push((call.id.to_string(), call.arguments.clone()));
        world.keys.push(call.context.idempotency_key.to_string());
        let result = match world.operations.get(call.id.as_ref()) {
            Some((_, run)) => run(&call).map(|data| Success { data, summary: None, details: None }),
            None => Err(failure("missing-deterministic-operation", "no such operation")),
        };
        Reply { result, receipt: Some(json(world.receipt.unwrap_or(r#"{"host-calls":{"tools":1,"log":1}}"#)).into()) }
    }
}

#[async_trait]
impl Judges for Script {
    fn knows(&self, judge: &str) -> bool {
        self.world().judges.contains_key(judge)
    }

    async fn judge(&self, call: Call) -> Reply<Verdict> {
        let mut world = self.world();
        world.calls.push((call.id.to_string(), call.arguments.clone()));
        let outcome = world.judges.get_mut(call.id.as_ref()).and_then(VecDeque::pop_front);
        let result = outcome
            .map(|outcome| Verdict { outcome, rationale: None })
            .ok_or_else(|| failure("judge-broke", "the judge broke"));
        Reply { result, receipt: None }
    }
}

/// The rules that a session declares, for each of its tools.
fn approvals(request: &OpenSession) -> Vec<ToolApproval> {
    let rules = &request.session.approve;
    let tools = request.session.tools.iter().flatten().filter(|_| !rules.is_empty());
    let of = |tool: &String| ToolApproval {
        tool: tool.clone(),
        effects: Effects::Once,
        identity: format!("the tool {tool}").into(),
        rules: rules.clone(),
        approved: Vec::new(),
    };
    tools.map(of).collect()
}

#[async_trait]
impl Sessions for Script {
    async fn open(&self, request: OpenSession) -> Result<OpenedSession, Failure> {
        let tool = |name: String| ToolDescription::new(name, "", json("{}"));
        let augmenters = self.world().augmenters.iter().map(|id| id.as_str().into()).collect();
        let opened = OpenedSession {
            system: request.session.system_prompt.clone().unwrap_or_default(),
            sections: Value::Null,
            models: vec!["first".to_owned(), "second".to_owned()],
            tools: request
                .session
                .tools
                .clone()
                .unwrap_or_default()
                .into_iter()
                .map(tool)
                .chain(request.engine_tools.clone())
                .collect(),
            settings: request.session.clone(),
            parallel_tools: self.world().parallel_tools.clone(),
            narrowing: None,
            approvals: approvals(&request),
            code: None,
            augmenters,
            windows: Vec::new(),
            result_limit: None,
        };
        self.world().opened.push(request);
        Ok(opened)
    }

    async fn complete(&self, round: ModelRound, _sink: Option<&dyn TextSink>) -> Result<ModelReply, Failure> {
        let mut world = self.world();
        let model = round.model.clone();
        let answer = world.answer.map(|answer| answer(&round));
        world.rounds.push(round);
        if let Some(message) = answer {
            return Ok(ModelReply { message, ..ModelReply::text(model, "") });
        }
        let message = world
            .answers
            .pop_front()
            .unwrap_or_else(|| Err(failure("script", "the model was asked once too often")))?;
        Ok(ModelReply {
            message,
            usage: Usage { input_tokens: 10, output_tokens: 5, cost: Some(0.5), ..Usage::default() },
            ..ModelReply::text(model, "")
        })
    }

    fn tool_effects(&self, tool: &str) -> Effects {
        if self.world().once.iter().any(|once| once == tool) { Effects::Once } else { Effects::Pure }
    }

    fn tool_provider(&self, _tool: &str) -> Option<Provider> {
        Some(Provider::Host)
    }

    async fn call_tool(&self, call: ToolCall) -> Reply<Value> {
        self.world().left.push(call.left);
        if call.request.name == "start" {
            // A run that ends when its caller does.
            call.cancel.cancelled().await;
            let used = Used { tokens: 70, ..Used::default() };
            let result = Err(failure("cancelled", "the run was cancelled"));
            return Reply { result, receipt: of_started_run("child", &used) };
        }
        if call.request.name.starts_with("slow") {
            tokio::time::sleep(std::time::Duration::from_millis(30)).await;
        }
        let mut world = self.world();
        world.calls.push((call.request.name.clone(), call.request.arguments.clone()));
        self.1.fetch_add(world.tool_seconds * 1_000_000, Ordering::SeqCst);
        let result = match (&*call.request.name, &call.given) {
            ("ask", None) => Err(crate::inputs::asks(&["x"], "s")),
            ("ask", Some(given)) => Ok(crate::inputs::seen(given)),
            (name, _) => world.tools.get(name).cloned().ok_or_else(|| failure("no-such-tool", "no such tool")),
        };
        Reply { result, receipt: None }
    }
}

#[async_trait]
impl Timer for Script {
    fn now(&self) -> Timestamp {
        Timestamp(1_000_000 + self.1.load(Ordering::SeqCst))
    }

    async fn sleep(&self, ms: f64) {
        self.world().sleeps.push(ms);
        self.1.fetch_add((ms * 1000.0) as i64, Ordering::SeqCst);
    }

    async fn deadline(&self, ms: f64) {
        tokio::time::sleep(std::time::Duration::from_secs_f64(ms / 1000.0)).await;
    }
}

impl Workflows for Script {
    fn find(&self, name: &str) -> Option<Arc<WorkflowIr>> {
        self.world().workflows.get(name).cloned()
    }

    fn names(&self) -> Vec<String> {
        self.world().workflows.keys().cloned().collect()
    }
}

/// Drives the core without the shell: after every event the state is compared with one that was folded from events that
/// went through JSON, and every effect is performed as often as `times` says, as a durable engine that only knows "at
/// least once" does.
pub async fn drive_by_hand(script: &Script, first: Vec<Event>, times: usize) -> State {
    let ports = script.ports();
    let mut state = State::default();
    let mut folded = State::default();
    let mut record = |state: &mut State, event: Event| {
        let recorded = Recorded::new(state.seq() + 1, ports.timer.now(), event);
        state.apply(&recorded).unwrap();
        let text = serde_json::to_string(&recorded.event).unwrap();
        let again: Event = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"));
        assert_eq!(again, recorded.event, "the event did not survive JSON: {text}");
        folded.apply(&Recorded::new(recorded.seq, recorded.at, again)).unwrap();
        assert_eq!(*state, folded, "the fold is not the state");
        let snapshot = serde_json::to_string(state).unwrap();
        let kept: State = serde_json::from_str(&snapshot).unwrap_or_else(|error| panic!("{error} in {snapshot}"));
        assert_eq!(*state, kept, "the state did not survive a snapshot");
    };
    for event in first {
        record(&mut state, event);
    }
    loop {
        match decide(&state) {
            Next::Record(events) => {
                assert_eq!(decide(&state), Next::Record(events.clone()), "deciding twice decides otherwise");
                for event in events {
                    record(&mut state, event);
                }
            }
            Next::Perform => {
                let wanted: BTreeSet<_> = state.wanted(opcell_engine::event::EffectId(0)).collect();
                for id in wanted {
                    let Some(effect) = state.effect(id, None) else { continue };
                    let mut reply = EffectReply::Slept;
                    for _ in 0..times {
                        reply = perform(&ports, effect.clone(), Arc::default(), None, None).await;
                    }
                    if let opcell_engine::effect::Task::Find { name } = &effect.task {
                        let program = ports.workflows.find(name).map(|ir| Program::new(ir).unwrap());
                        record(&mut state, Event::DefinitionPinned { name: name.clone(), program });
                    }
                    record(&mut state, Event::Replied { effect: id, reply: Box::new(reply) });
                }
            }
            Next::Wait | Next::Stop | Next::Finished(_) => return state,
        }
    }
}
