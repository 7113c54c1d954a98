use super::*;
use crate::models::{Models, ScriptedModel};
use crate::prompt::Component;
use crate::skills::{SkillFolder, SkillLibrary};
use crate::testing::{context, round};
use crate::tools::{Delegation, FileRoot, FileRoots, SessionTool, Shell, delegate_tool, file_tools, shell_tool};
use opcell_engine::call;
use opcell_engine::conversation::{Message, ToolCallRequest};
use opcell_engine::tool::{ModelCaller, Tool, ToolInput};
use opcell_ir::WorkflowIr;
use opcell_ir::ir::{AgentTool, Contribution, ModelSelection, PromptMode, Session, Template, ThinkingLevel};
use opcell_types::quota::ThisProcess;
use serde_json::json;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

mod code;
mod results;

/// A host with a working folder, two skills, an extension with a tool of its own, and two workflows.
struct World {
    _folder: TempDir,
    builder: HostSessionsBuilder,
}

struct Catalog(Vec<Arc<WorkflowIr>>);

impl Workflows for Catalog {
    fn find(&self, name: &str) -> Option<Arc<WorkflowIr>> {
        self.0.iter().find(|workflow| workflow.name.as_ref() == name).cloned()
    }

    fn names(&self) -> Vec<String> {
        self.0.iter().map(|workflow| workflow.name.to_string()).collect()
    }
}

struct Echo(ToolDescription);

#[async_trait]
impl Tool for Echo {
    fn description(&self) -> &ToolDescription {
        &self.0
    }

    fn effects(&self) -> Effects {
        Effects::Pure
    }

    async fn call(&self, input: &ToolInput) -> Result<Value, Failure> {
        Ok(input.arguments.clone())
    }
}

struct Runs;

#[async_trait]
impl Delegation for Runs {
    async fn run(&self, workflow: &str, prompt: &str, _: &ToolInput, _: &ModelCaller) -> Reply<Value> {
        Ok(Value::from(format!("{workflow} did {prompt}"))).into()
    }

    async fn ask(&self, agent: &AgentTool, query: &str, _: &ToolInput, _: &ModelCaller) -> Reply<Value> {
        Ok(Value::from(format!("{} said {query}", agent.workflow))).into()
    }
}

fn echo(name: &str, extension: Option<&str>) -> SessionTool {
    let parameters = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let tool = Echo(ToolDescription::new(name, format!("Echoes as {name}."), parameters));
    SessionTool { extension: extension.map(str::to_owned), ..SessionTool::new(Arc::new(tool)) }
}

fn world() -> World {
    let folder = TempDir::new().unwrap();
    let skills = folder.path().join("skills");
    for (name, more) in [("lambda-compiler", "lambda: prose ↔ λ\n"), ("tidy", ""), ("quiet", "advertise: false\n")] {
        fs::create_dir_all(skills.join(name)).unwrap();
        let text = format!("---\nname: {name}\ndescription: About {name}.\n{more}---\nHow to {name}.\n");
        fs::write(skills.join(name).join("SKILL.md"), text).unwrap();
    }
    let work = folder.path().join("work");
    fs::create_dir(&work).unwrap();
    fs::write(work.join("a.txt"), "hello").unwrap();
    let skills = Arc::new(SkillLibrary::discover(&[SkillFolder::required(skills)]));
    let roots = FileRoots::open(&[FileRoot::read_write("work", work.clone())], &Arc::default(), &ThisProcess).unwrap();
    let workflow = |name: &str, advertise: bool| {
        let json = json!({"version": "workflow-ir/v1", "name": name, "description": format!("Does {name}."),
            "advertise": advertise, "steps": []});
        Arc::new(serde_json::from_value(json).unwrap())
    };
    let builder = HostSessions::builder()
        .models(Models::only(Arc::new(ScriptedModel::parse("s", "version: 1\nturns: [{text: hi}]").unwrap())))
        .tools(file_tools(roots, skills.clone()))
        .tool(shell_tool(Shell::new(work)))
        .tool(echo("ledger/add", Some("ledger")))
        .tool(delegate_tool(Arc::new(Runs)))
        .missing_tools(MissingTools::Refuse)
        .skills(skills)
        .extension(Extension {
            name: "ledger".to_owned(),
            description: "Keeps accounts.".to_owned(),
            contribution: Some((1000, "Book every expense.".to_owned())),
            ..Extension::default()
        })
        .workflows(Arc::new(Catalog(vec![workflow("ship", true), workflow("hidden", false)])))
        .runtime_metadata(Arc::new(|| vec![("session start date".to_owned(), "2026-01-05".to_owned())]));
    World { _folder: folder, builder }
}

fn names(names: &[&str]) -> Option<Vec<String>> {
    Some(names.iter().map(|name| (*name).to_owned()).collect())
}

fn request(session: Session) -> OpenSession {
    OpenSession { context: context("step"), session, judge: false, engine_tools: Vec::new(), inherited: None }
}

async fn open(sessions: &HostSessions, session: Session) -> Result<OpenedSession, Failure> {
    sessions.open(request(session)).await
}

fn tool_names(opened: &OpenedSession) -> Vec<&str> {
    opened.tools.iter().map(|tool| tool.name.as_str()).collect()
}

async fn call(
    sessions: &HostSessions,
    opened: &OpenedSession,
    name: &str,
    arguments: serde_json::Value,
) -> Result<Value, Failure> {
    let request = ToolCallRequest { id: "c".to_owned(), name: name.to_owned(), arguments: Value::from(arguments) };
    let left = opcell_ir::ir::RunLimits::default();
    let call = call::ToolCall {
        context: context("step"),
        session: Arc::new(opened.clone()),
        request,
        left,
        approved: None,
        given: None,
    };
    sessions.call_tool(ToolCall::new(call, CancellationToken::new())).await.result
}

#[tokio::test]
async fn a_session_that_declares_nothing_has_and_shows_all_that_is_harmless() {
    let world = world();
    let sessions = world.builder.build().unwrap();
    let opened = open(&sessions, Session::default()).await.unwrap();
    // Tools that write or run programs are had by those who declare them.
    let all = ["read", "ls", "glob", "grep", "ledger/add", "delegate"];
    assert_eq!(tool_names(&opened), all);
    assert_eq!(opened.settings.skills, names(&["lambda-compiler", "tidy"]), "what is not advertised is not offered");
    assert_eq!(opened.settings.workflows, names(&["ship"]));
    for shown in
        ["λ engage", "read →", "λ skills.", "λ extensions.", "λ workflows.", "Book every expense.", "2026-01-05"]
    {
        assert!(opened.system.contains(shown), "{shown}: {}", opened.system);
    }
    assert!(!opened.system.contains("unsandboxed"), "what is not had is not described: {}", opened.system);
    assert_eq!(opened.models, ["scripted"]);
}

/// Seed 004's observed case, through the whole road: declared tools and skills, lambda mode, parent framing and
/// instruction text.
#[tokio::test]
async fn the_observed_case_opens_with_exactly_what_it_declares() {
    let world = world();
    let sessions = world.builder.build().unwrap();
    let session = Session {
        prompt_mode: Some(PromptMode::Lambda),
        tools: names(&["read", "bash"]),
        skills: names(&["lambda-compiler"]),
        extensions: names(&[]),
        workflows: names(&[]),
        system_prompt: Some(
            "Use the lambda-compiler skill.\n\nIteratively compile and refine what you are given.".to_owned(),
        ),
        ..Session::default()
    };
    let opened = open(&sessions, session).await.unwrap();
    assert_eq!(tool_names(&opened), ["read", "bash"]);
    insta::assert_snapshot!(opened.system);
    assert!(
        call(&sessions, &opened, "read", json!({"path": "skill:lambda-compiler/SKILL.md"}))
            .await
            .unwrap()
            .as_str()
            .unwrap()
            .contains("How to lambda-compiler.")
    );
    let refused = call(&sessions, &opened, "read", json!({"path": "skill:tidy/SKILL.md"})).await.unwrap_err();
    assert_eq!(refused.message, "this session has no skill `tidy`; it has: lambda-compiler");
    let refused = call(&sessions, &opened, "write", json!({"path": "x", "content": ""})).await.unwrap_err();
    assert_eq!(refused.message, "this session has no tool `write`; it has: read, bash");
}

#[tokio::test]
async fn the_prompt_is_shown_without_a_model() {
    let World { _folder, builder } = world();
    let sessions = builder.models(Models::new(crate::models::ModelsConfig::default()).unwrap()).build().unwrap();
    let asked = request(Session { prompt_mode: Some(PromptMode::Prose), ..Session::default() });
    let (prompt, tools) = sessions.prompt(&asked).unwrap();
    let own = tools.iter().find(|tool| tool.name == "ledger/add").unwrap();
    assert_eq!(own.parameters.get("type").and_then(Value::as_str), Some("object"));
    assert_eq!(prompt.mode, PromptMode::Prose);
    assert!(prompt.section(Component::Workflows).is_some());
    let failed = sessions.open(asked).await.unwrap_err();
    assert!(failed.message.contains("no model is chosen"), "{}", failed.message);
}

#[tokio::test]
async fn leaving_an_extension_out_takes_its_tools_and_its_text_away() {
    let world = world();
    let sessions = world.builder.build().unwrap();
    let opened = open(&sessions, Session { extensions: names(&[]), ..Session::default() }).await.unwrap();
    assert!(!tool_names(&opened).contains(&"ledger/add") && !opened.system.contains("Book every expense."));
    let refused =
        open(&sessions, Session { extensions: names(&[]), tools: names(&["ledger/add"]), ..Session::default() }).await;
    assert_eq!(refused.unwrap_err().reason.as_ref(), "unknown-tool");
}

#[tokio::test]
async fn agents_of_the_document_are_tools_under_their_own_names_and_the_only_way_to_delegate() {
    let world = world();
    let sessions = world.builder.build().unwrap();
    let agent = AgentTool { description: "Finds out.".to_owned(), workflow: "pack/agents/researcher".into() };
    let agents = [("researcher".to_owned(), agent)].into_iter().collect();
    let declared = Session { tools: names(&["read"]), agents, ..Session::default() };
    let opened = open(&sessions, declared.clone()).await.unwrap();
    assert_eq!(tool_names(&opened), ["read", "researcher"]);
    assert_eq!(opened.tools[1].description, "Finds out.");
    let said = call(&sessions, &opened, "researcher", json!({"query": "why"})).await.unwrap();
    assert_eq!(said, Value::from("pack/agents/researcher said why"));
    let refused = call(&sessions, &opened, "researcher", json!({"question": "why"})).await.unwrap_err();
    assert_eq!(refused.reason.as_ref(), "invalid-arguments");
    let refused = call(&sessions, &opened, "delegate", json!({"workflow": "ship", "prompt": "it"})).await.unwrap_err();
    assert_eq!(refused.reason.as_ref(), "unknown-tool");
    let refused = call(&sessions, &opened, "analyst", json!({"query": "why"})).await.unwrap_err();
    assert_eq!(refused.reason.as_ref(), "unknown-tool");
}

#[tokio::test]
async fn workflows_narrow_what_can_be_delegated_and_bring_the_tool() {
    let world = world();
    let sessions = world.builder.build().unwrap();
    let declared = Session { tools: names(&["read"]), workflows: names(&["hidden"]), ..Session::default() };
    let opened = open(&sessions, declared).await.unwrap();
    assert_eq!(tool_names(&opened), ["read", "delegate"]);
    assert!(opened.system.contains("hidden → Does hidden.") && !opened.system.contains("ship"), "{}", opened.system);
    let run = |workflow: &str| json!({"workflow": workflow, "prompt": "it"});
    assert_eq!(call(&sessions, &opened, "delegate", run("hidden")).await.unwrap(), Value::from("hidden did it"));
    assert_eq!(
        call(&sessions, &opened, "delegate", run("ship")).await.unwrap_err().reason.as_ref(),
        "unknown-workflow"
    );
    let opened = open(&sessions, Session { workflows: names(&[]), ..Session::default() }).await.unwrap();
    assert!(!tool_names(&opened).contains(&"delegate"));
}

#[tokio::test]
async fn what_is_declared_and_not_there_does_not_open() {
    let world = world();
    let sessions = world.builder.build().unwrap();
    let cases = [
        (Session { tools: names(&["raed"]), ..Session::default() }, "unknown-tool", "did you mean `read`?"),
        (Session { skills: names(&["tidi"]), ..Session::default() }, "unknown-skill", "did you mean `tidy`?"),
        (Session { workflows: names(&["shop"]), ..Session::default() }, "unknown-workflow", "did you mean `ship`?"),
        (
            Session { extensions: names(&["legder"]), ..Session::default() },
            "unknown-extension",
            "did you mean `ledger`?",
        ),
        (
            Session { session_profile: Some("fast".to_owned()), ..Session::default() },
            "unknown-session-profile",
            "available: none",
        ),
        (
            Session { prompt_component_selection: Some(Value::from("all")), ..Session::default() },
            "invalid-session",
            "must be an object",
        ),
    ];
    for (session, reason, says) in cases {
        let failed = open(&sessions, session).await.unwrap_err();
        assert_eq!(failed.reason.as_ref(), reason);
        assert!(failed.message.contains(says), "{}", failed.message);
    }
}

#[tokio::test]
async fn bash_is_not_there_unless_the_operator_enables_it() {
    let sessions = HostSessions::builder()
        .models(Models::only(Arc::new(ScriptedModel::parse("s", "version: 1\nturns: []").unwrap())))
        .tool(echo("read", None))
        .missing_tools(MissingTools::Refuse);
    let declared = Session { tools: names(&["read", "bash"]), ..Session::default() };
    let strict = sessions.build().unwrap();
    let failed = open(&strict, declared.clone()).await.unwrap_err();
    assert!(failed.message.contains("the operator must enable it"), "{}", failed.message);

    let lenient = HostSessions::builder()
        .models(Models::only(Arc::new(ScriptedModel::parse("s", "version: 1\nturns: []").unwrap())))
        .tool(echo("read", None))
        .build()
        .unwrap();
    let opened = open(&lenient, declared).await.unwrap();
    assert_eq!(tool_names(&opened), ["read"]);
    assert!(opened.system.contains("¬available: bash"), "{}", opened.system);
    assert_eq!(
        call(&lenient, &opened, "bash", json!({"command": "id"})).await.unwrap_err().reason.as_ref(),
        "unknown-tool"
    );
}

#[tokio::test]
async fn a_judge_has_nothing_to_call_unless_it_declares_it() {
    let world = world();
    let sessions = world.builder.build().unwrap();
    let mut asked = request(Session::default());
    asked.judge = true;
    asked.inherited =
        Some(Session { tools: names(&["read"]), thinking_level: Some(ThinkingLevel::High), ..Session::default() });
    let opened = sessions.open(asked.clone()).await.unwrap();
    assert_eq!(tool_names(&opened), [] as [&str; 0]);
    assert_eq!(opened.settings.thinking_level, Some(ThinkingLevel::Off));
    assert!(opened.system.contains("λ tools. ∅"));
    asked.session.tools = names(&["read"]);
    assert_eq!(tool_names(&sessions.open(asked).await.unwrap()), ["read"]);
}

#[tokio::test]
async fn settings_come_from_the_step_then_its_profile_then_the_run_then_the_host() {
    let World { _folder, builder } = world();
    let id = |id: &str| Some(ModelSelection::Id(id.to_owned()));
    let profiles = [
        (
            "careful".to_owned(),
            Session { model: id("p/careful"), thinking_level: Some(ThinkingLevel::High), ..Session::default() },
        ),
        ("quick".to_owned(), Session { model: id("p/quick"), max_rounds: Some(3), ..Session::default() }),
    ];
    let defaults = Session { temperature: Some(0.7), prompt_mode: Some(PromptMode::Prose), ..Session::default() };
    let sessions = builder.profiles(profiles.into_iter().collect()).defaults(defaults).build().unwrap();
    let mut asked =
        request(Session { session_profile: Some("careful".to_owned()), temperature: Some(0.1), ..Session::default() });
    asked.inherited = Some(Session {
        session_profile: Some("quick".to_owned()),
        thinking_level: Some(ThinkingLevel::Low),
        ..Session::default()
    });
    let opened = sessions.open(asked.clone()).await.unwrap();
    assert_eq!(opened.models, ["p/careful"]);
    assert_eq!(opened.settings.thinking_level, Some(ThinkingLevel::High));
    assert_eq!((opened.settings.temperature, opened.settings.max_rounds), (Some(0.1), Some(3)));
    assert!(opened.system.contains("You are an agent"), "the host's mode: {}", opened.system);
    asked.session.model = id("p/own");
    assert_eq!(sessions.open(asked).await.unwrap().models, ["p/own"]);
}

#[tokio::test]
async fn replacement_is_explicit_and_instruction_text_is_a_layer() {
    let World { _folder, builder } = world();
    let defaults = Session { system_prompt: Some("House rules.".to_owned()), ..Session::default() };
    let sessions = builder.defaults(defaults).build().unwrap();
    let text = Some("Do this.".to_owned());
    let layered = open(&sessions, Session { system_prompt: text.clone(), ..Session::default() }).await.unwrap();
    assert!(layered.system.ends_with("λ instructions(workflow).\n\nHouse rules.\n\nDo this."), "{}", layered.system);
    let replaced = open(&sessions, Session { replace_system_prompt: text, ..Session::default() }).await.unwrap();
    assert_eq!(replaced.system, "Do this.");
}

#[tokio::test]
async fn engine_tools_are_listed_and_never_shadowed() {
    let world = world();
    let sessions = world.builder.build().unwrap();
    let spec = |name: &str| ToolDescription::new(name, "Moves on.", json!({"type": "object"}));
    let mut asked = request(Session { tools: names(&["read", "workflow__transition"]), ..Session::default() });
    asked.engine_tools = vec![spec("workflow__transition")];
    assert_eq!(tool_names(&sessions.open(asked.clone()).await.unwrap()), ["read", "workflow__transition"]);
    asked.engine_tools = vec![spec("read")];
    asked.session.tools = None;
    assert_eq!(sessions.open(asked).await.unwrap_err().reason.as_ref(), "tool-clash");
}

#[tokio::test]
async fn a_selection_hides_and_does_not_take_away() {
    let world = world();
    let sessions = world.builder.build().unwrap();
    let selection = Value::from(json!({"components": ["preamble"], "tool-names": ["read"]}));
    let opened =
        open(&sessions, Session { prompt_component_selection: Some(selection), ..Session::default() }).await.unwrap();
    assert!(!opened.system.contains("λ skills.") && !opened.system.contains("ls →"), "{}", opened.system);
    assert!(call(&sessions, &opened, "ls", json!({})).await.is_ok());
}

#[tokio::test]
async fn arguments_are_checked_and_results_capped_with_a_receipt() {
    let World { _folder, builder } = world();
    let sessions = builder.result_limit(40).build().unwrap();
    let mut opened = open(&sessions, Session::default()).await.unwrap();
    // As in sessions that were opened before long results were kept.
    assert_eq!(opened.result_limit.take(), Some(40));
    let failed = call(&sessions, &opened, "read", json!({"paht": 3})).await.unwrap_err();
    assert_eq!(failed.reason.as_ref(), "invalid-arguments");
    assert!(failed.message.contains("path") && failed.message.contains("paht"), "{}", failed.message);
    let failed = call(&sessions, &opened, "ledger/add", json!({"n": "x"})).await.unwrap_err();
    assert!(failed.message.contains("at `/n`"), "{}", failed.message);

    let long = json!({"n": 1, "text": "é".repeat(100)});
    let request = ToolCallRequest { id: "c".to_owned(), name: "ledger/add".to_owned(), arguments: Value::from(long) };
    let left = opcell_ir::ir::RunLimits::default();
    let call =
        call::ToolCall { context: context("s"), session: Arc::new(opened), request, left, approved: None, given: None };
    let reply = sessions.call_tool(ToolCall::new(call, CancellationToken::new())).await;
    let text = reply.result.unwrap();
    // A quarter of what is shown is the end.
    assert_eq!(
        text.as_str().unwrap(),
        format!(
            "{{\"n\":1,\"text\":\"{}\n[truncated: 178 of 217 bytes are left out here]\n{}\"}}",
            "é".repeat(7),
            "é".repeat(4)
        )
    );
    let receipt = reply.receipt.unwrap();
    assert_eq!(receipt.get("truncated"), Some(&Value::from(true)));
    assert_eq!(receipt.get("tool"), Some(&Value::from("ledger/add")));
}

#[tokio::test]
async fn effects_are_the_tools_own_and_unknown_ones_happen_once() {
    let world = world();
    let sessions = world.builder.build().unwrap();
    let expected =
        [("read", Effects::Pure), ("write", Effects::Idempotent), ("bash", Effects::Once), ("nobody", Effects::Once)];
    for (tool, effects) in expected {
        assert_eq!(sessions.tool_effects(tool), effects, "{tool}");
    }
}

#[tokio::test]
async fn a_session_is_answered_and_recorded() {
    let World { _folder, builder } = world();
    let path = _folder.path().join("recorded.json");
    let sessions = builder.record_to(&path).build().unwrap();
    let opened = Arc::new(open(&sessions, Session::default()).await.unwrap());
    let round = call::ModelRound {
        context: context("step"),
        model: opened.models[0].clone(),
        session: opened,
        messages: [Message::user("hello")].into(),
        schema: None,
        window: None,
        summaries: call::Summaries::default(),
    };
    let round = ModelRound::new(round, CancellationToken::new());
    assert_eq!(sessions.complete(round, None).await.unwrap().message.content, "hi");
    assert!(fs::read_to_string(&path).unwrap().contains("\"hello\""));
}

#[test]
fn two_tools_of_one_name_do_not_build() {
    let error = HostSessions::builder().tool(echo("a", None)).tool(echo("a", None)).build().err().unwrap();
    assert_eq!(error.to_string(), "there are two tools named `a`");
}

/// Fails every round, and knows how many were under way at a time.
#[derive(Default)]
struct Counting {
    now: AtomicUsize,
    most: AtomicUsize,
}

#[async_trait]
impl Model for Counting {
    async fn complete(&self, _: &ModelRound, _: Option<&dyn TextSink>) -> Result<ModelReply, Failure> {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        // Everything else that can begin does so before this continues.
        for _ in 0..32 {
            tokio::task::yield_now().await;
        }
        self.now.fetch_sub(1, Ordering::SeqCst);
        Err(failure("counted", "the model only counts"))
    }
}

#[tokio::test]
async fn no_more_rounds_are_under_way_than_a_share_allows() {
    for (allowed, most) in [(Some(2), 2), (None, 8)] {
        let mut builder = HostSessions::builder();
        if let Some(allowed) = allowed {
            builder = builder.rounds_at_a_time(allowed);
        }
        let counting = Arc::new(Counting::default());
        let mut sessions = builder.build().unwrap();
        sessions.answers = counting.clone();
        let rounds = (0..8).map(|_| sessions.complete(round("s", vec![Message::user("hello")]), None));
        let answered = futures_util::future::join_all(rounds).await;
        assert!(answered.iter().all(Result::is_err));
        assert_eq!(counting.most.load(Ordering::SeqCst), most, "{allowed:?}");
    }
}

#[test]
fn alternatives_to_tokens_that_are_never_asked_for_are_a_problem() {
    let asking = || Session {
        top_logprobs: Some(2),
        contributions: vec![Contribution::Template(Template { text: "hi".into(), vars: IndexMap::default() })],
        ..Session::default()
    };
    let found = |sessions: &HostSessions, session: Session| -> Vec<&'static str> {
        sessions.problems(&session).into_iter().map(|problem| problem.code).collect()
    };
    let World { _folder, builder } = world();
    let sessions = builder.build().unwrap();
    assert_eq!(found(&sessions, asking()), ["top-logprobs-without-logprobs"]);
    assert_eq!(found(&sessions, Session { logprobs: Some(true), ..asking() }), [""; 0]);
    // What a delegate sets is a layer over sessions that may ask for them.
    assert_eq!(found(&sessions, Session { contributions: Vec::new(), ..asking() }), [""; 0]);
    let World { _folder, builder } = world();
    let defaults = Session { logprobs: Some(true), ..Session::default() };
    assert_eq!(found(&builder.defaults(defaults).build().unwrap(), asking()), [""; 0]);
}

#[tokio::test]
async fn the_rules_of_every_place_count_and_a_call_is_made_by_the_tool_that_was_approved() {
    let world = world();
    let rules = |json: &str| serde_json::from_str::<ir::ApprovalRules>(json).unwrap();
    let mut guarded = echo("guarded", None);
    guarded.approve = rules(r#"{"when": {"expression": "$inputs.n > 3"}}"#);
    guarded.approved = vec![Value::from(json!({"n": 7}))];
    let sessions = world.builder.tool(guarded).approve(rules(r#"{"ask": "unless-pure", "tools": ["b*"]}"#));
    let sessions = sessions.build().unwrap();
    let declared = Session {
        tools: names(&["read", "bash", "guarded"]),
        approve: rules(r#"{"tools": ["guarded"], "people": 2}"#),
        ..Session::default()
    };
    let opened = open(&sessions, declared).await.unwrap();
    let of = |tool: &str| opened.approvals.iter().find(|approval| approval.tool == tool);
    assert!(of("read").is_none());
    assert_eq!(of("bash").unwrap().describe(), "asks: unless-pure");
    let guarded = of("guarded").unwrap();
    assert_eq!(guarded.rules.rules().len(), 2, "{}", guarded.describe());
    assert!(guarded.describe().ends_with("1 approved for always"));
    // What the prompt of a person says.
    let (prompt, _) = sessions.prompt(&request(Session { tools: names(&["bash"]), ..Session::default() })).unwrap();
    assert!(prompt.notes.iter().any(|note| note == "bash asks: unless-pure"), "{:?}", prompt.notes);

    let made = async |approved: Option<Arc<str>>| {
        let request =
            ToolCallRequest { id: "c".to_owned(), name: "guarded".to_owned(), arguments: Value::from(json!({"n": 1})) };
        let left = ir::RunLimits::default();
        let session = Arc::new(opened.clone());
        let call = call::ToolCall { context: context("step"), session, request, left, approved, given: None };
        sessions.call_tool(ToolCall::new(call, CancellationToken::new())).await.result
    };
    assert!(made(None).await.is_ok());
    assert!(made(Some(guarded.identity.clone())).await.is_ok());
    let changed = made(Some("another tool of this name".into())).await.unwrap_err();
    assert_eq!(changed.reason.as_ref(), "tool-changed");
}
