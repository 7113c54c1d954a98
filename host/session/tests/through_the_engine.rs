//! A psi workflow with a session step, tools, a skill and an LLM judge, driven by the engine over these sessions.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs, reason = "a failed test")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it looks at")]

use opcell_engine::{Engine, Program, RunOptions, RunOutcome, Status};
use opcell_ir::source::SourceFile;
use opcell_session::HostSessions;
use opcell_session::models::{Models, ScriptedModel};
use opcell_session::skills::{SkillFolder, SkillLibrary};
use opcell_session::tools::{FileRoot, FileRoots, file_tools};
use opcell_types::{Value, quota::ThisProcess};
use opcell_workflow::companions::NoCompanions;
use opcell_workflow::document;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

const WORKFLOW: &str = r#"
{:name "proofread" :description "Proofreads a file until it is right."
 :steps [{:name "proofread" :type :session
          :tools ["read" "edit"] :skills ["spelling"]
          :system-prompt "Mind the spelling."
          :contributions [{:type :template :text "Proofread {{file}}."
                           :vars {"file" {:from :workflow-input :path [:input]}}}]
          :judge {:type :llm :contributions [{:type :template :text "Is it right? Say RIGHT or AGAIN."}]}
          :on {"AGAIN" {:goto "proofread" :max-iterations 3}
               "RIGHT" {:goto :done}}}]}
"#;

const SCRIPT: &str = r#"
version: 1
turns:
- when: {step: proofread, visit: 1, last: "Proofread a.txt.", system-contains: "Mind the spelling."}
  tool-calls:
  - {name: read, arguments: {path: "skill:spelling/SKILL.md"}}
  - {name: read, arguments: {path: a.txt}}
- when: {contains: "Helo wurld"}
  tool-calls: [{name: edit, arguments: {path: a.txt, old_text: Helo, new_text: Hello}}]
- when: {contains: "replaced 1 of 1"}
  text: "Mended one word."
- when: {contains: "Is it right?", system-contains: "λ tools. ∅"}
  text: AGAIN
- when: {visit: 2}
  tool-calls: [{name: bash, arguments: {command: "sed -i s/wurld/world/ a.txt"}}]
- when: {contains: "this session has no tool `bash`; it has: read, edit"}
  tool-calls: [{name: edit, arguments: {path: a.txt, old_text: wurld, new_text: world}}]
- text: "Mended another."
- when: {contains: "Is it right?"}
  text: RIGHT
"#;

struct World {
    folder: TempDir,
}

impl World {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        fs::create_dir_all(folder.path().join("skills/spelling")).unwrap();
        let skill = "---\ndescription: How words are spelt.\n---\nLook twice.\n";
        fs::write(folder.path().join("skills/spelling/SKILL.md"), skill).unwrap();
        fs::create_dir(folder.path().join("work")).unwrap();
        fs::write(folder.path().join("work/a.txt"), "Helo wurld\n").unwrap();
        Self { folder }
    }

    fn text(&self) -> String {
        fs::read_to_string(self.folder.path().join("work/a.txt")).unwrap()
    }

    async fn run(&self, script: &str, record: Option<&Path>) -> RunOutcome {
        let skills = Arc::new(SkillLibrary::discover(&[SkillFolder::required(self.folder.path().join("skills"))]));
        let work = FileRoot::read_write("work", self.folder.path().join("work"));
        let mut builder = HostSessions::builder()
            .models(Models::only(Arc::new(ScriptedModel::parse("script", script).unwrap())))
            .tools(file_tools(FileRoots::open(&[work], &Arc::default(), &ThisProcess).unwrap(), skills.clone()))
            .skills(skills);
        if let Some(path) = record {
            builder = builder.record_to(path);
        }
        let source = SourceFile::from_bytes("proofread.edn", WORKFLOW.as_bytes().to_vec()).unwrap();
        let compiled = document::compile(&source, &NoCompanions);
        let program = Program::new(compiled.ir.unwrap_or_else(|| panic!("{:?}", compiled.diagnostics))).unwrap();
        let engine = Engine::builder().sessions(Arc::new(builder.build().unwrap())).build();
        let input = Value::from_json(r#"{"input": "a.txt"}"#).unwrap();
        engine.start(program, input, RunOptions::default()).await.unwrap().finished().await.unwrap()
    }
}

#[tokio::test]
async fn a_workflow_with_tools_a_skill_and_a_judge_runs_to_its_end_and_replays_from_its_recording() {
    let world = World::new();
    let recording = world.folder.path().join("recording.json");
    let outcome = world.run(SCRIPT, Some(&recording)).await;
    assert_eq!(outcome.status, Status::Completed, "{outcome:?}");
    assert_eq!(outcome.result, Value::from("Mended another."));
    assert_eq!(world.text(), "Hello world\n");

    let again = World::new();
    let replayed = again.run(&fs::read_to_string(&recording).unwrap(), None).await;
    assert_eq!((replayed.status, replayed.result), (outcome.status, outcome.result));
    assert_eq!(again.text(), "Hello world\n");
}

#[tokio::test]
async fn a_script_that_differs_ends_the_run_with_what_was_asked_and_expected() {
    let world = World::new();
    let outcome = world.run("version: 1\nturns:\n- {when: {contains: Translate}, text: no}\n", None).await;
    assert_eq!(outcome.status, Status::Failed);
    assert_eq!(outcome.reason.as_deref(), Some("script-mismatch"));
    let message = outcome.message.unwrap();
    assert!(message.contains(r#"expects `contains` "Translate", got "Proofread a.txt.""#), "{message}");
}

#[tokio::test]
async fn arguments_that_are_not_an_object_are_said_to_the_model_and_no_tool_is_called() {
    let script = r#"
version: 1
turns:
- tool-calls: [{name: edit, arguments: "{\"path\": \"a.txt\", \"old_text\": \"Helo\""}]
- when: {contains: "cannot be used: they are not JSON (EOF while parsing an object"}
  tool-calls: [{name: edit, arguments: [1]}]
- when: {contains: "must be one JSON object, got [1]"}
  text: "I give up."
- text: RIGHT
"#;
    let world = World::new();
    let outcome = world.run(script, None).await;
    assert_eq!(
        (outcome.status, outcome.result),
        (Status::Completed, Value::from("I give up.")),
        "{:?}",
        outcome.message
    );
    assert_eq!(world.text(), "Helo wurld\n");
}
