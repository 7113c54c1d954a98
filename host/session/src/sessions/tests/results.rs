//! Long results of tools, which a model reads by a handle.

use super::*;
use opcell_engine::{Engine, Program, ResumeOptions, RunOptions, Status};
use opcell_ir::source::SourceFile;
use opcell_journal::{Journal as _, MemoryJournal, NewRun, Record, RunId};
use opcell_workflow::{companions::NoCompanions, document};

const WORKFLOW: &str = r#"
{:name "read" :description "Reads."
 :steps [{:name "s" :type :session :tools ["log"] :contributions [{:type :template :text "Read."}]}]}
"#;

/// A log of 40,000 lines, and how often it was asked for.
struct Log(ToolDescription, Arc<AtomicUsize>);

#[async_trait]
impl Tool for Log {
    fn description(&self) -> &ToolDescription {
        &self.0
    }

    fn effects(&self) -> Effects {
        Effects::Pure
    }

    async fn call(&self, _: &ToolInput) -> Result<Value, Failure> {
        self.1.fetch_add(1, Ordering::SeqCst);
        Ok(Value::from((1..=40_000).map(|line| format!("entry {line}\n")).collect::<String>()))
    }
}

/// Asks for the log, reads lines of it by its handle, tries a handle that is none, and answers with what it got.
#[derive(Default)]
struct Digging {
    tools: std::sync::Mutex<Vec<Vec<String>>>,
}

#[async_trait]
impl Model for Digging {
    async fn complete(&self, round: &ModelRound, _: Option<&dyn TextSink>) -> Result<ModelReply, Failure> {
        let tools = round.session.tools.iter().map(|tool| tool.name.clone()).collect();
        self.tools.lock().unwrap().push(tools);
        let results: Vec<&Message> = round.messages.iter().filter(|message| message.tool_call_id.is_some()).collect();
        let read = |handle: &str, line: i64| {
            let arguments = json!({"handle": handle, "line": line, "length": 10});
            ModelReply::text("m", "").calling(format!("c{}", results.len()), "read_result", Value::from(arguments))
        };
        Ok(match results.as_slice() {
            [] => ModelReply::text("m", "").calling("c", "log", Value::from(json!({}))),
            [log] => {
                assert!(log.content.len() < 66_000 && log.content.ends_with("entry 40000\n"), "{}", log.content.len());
                read(log.content.split("handle \"").nth(1).unwrap().split('"').next().unwrap(), 30_000)
            }
            [_, _] => read("result-0123456789abcdef", 1),
            [_, found, none] => {
                assert!(none.is_error && !found.is_error, "{none:?}");
                let found = found.content.split("]\n").nth(1).unwrap();
                ModelReply::text("m", format!("{found} | {}", none.content.split(':').nth(1).unwrap().trim()))
            }
            more => panic!("{} results", more.len()),
        })
    }
}

fn engine(model: &Arc<Digging>, calls: &Arc<AtomicUsize>, journal: MemoryJournal) -> Engine {
    let parameters = Value::from(json!({"type": "object"}));
    let log = Log(ToolDescription::new("log", "The log.", parameters), calls.clone());
    let sessions = HostSessions::builder()
        .models(Models::only(model.clone()))
        .tool(SessionTool::new(Arc::new(log)))
        .runtime_metadata(Arc::new(Vec::new))
        .build()
        .unwrap();
    Engine::builder().sessions(Arc::new(sessions)).journal(Arc::new(journal)).build()
}

async fn holding(records: Vec<Record>) -> MemoryJournal {
    let (journal, run): (_, RunId) = (MemoryJournal::new(), "r".into());
    let fence = journal.create(NewRun { records, ..NewRun::empty(&run, "read", 0) }).await.unwrap();
    journal.release(&run, fence).await.unwrap();
    journal
}

#[tokio::test]
async fn a_long_result_is_read_by_its_handle_also_by_a_run_that_was_killed_after_any_event() {
    let (model, calls) = (Arc::new(Digging::default()), Arc::new(AtomicUsize::new(0)));
    let whole = engine(&model, &calls, MemoryJournal::new());
    let compiled = document::compile(&SourceFile::new("read.edn", WORKFLOW), &NoCompanions);
    let program = Program::new(compiled.ir.unwrap()).unwrap();
    let options = RunOptions { run: Some("r".parse().unwrap()), ..RunOptions::default() };
    let input = Value::from(json!({}));
    let outcome = whole.start(program, input, options).await.unwrap().finished().await.unwrap();
    let expected = "entry 3000 | this conversation has no result with the handle `result-0123456789abcdef`";
    assert_eq!((outcome.status, outcome.result.as_str()), (Status::Completed, Some(expected)), "{outcome:?}");
    // The tool is there once there is something to read, after the others.
    let offered = model.tools.lock().unwrap().clone();
    assert_eq!(
        offered,
        [vec!["log"], vec!["log", "read_result"], vec!["log", "read_result"], vec!["log", "read_result"]]
    );
    let records = whole.journal().read(&"r".into(), 0, 1_000).await.unwrap();
    // The journal has the result once.
    let with_it = records.iter().filter(|record| record.payload.contains("entry 20000")).count();
    assert_eq!((with_it, calls.load(Ordering::SeqCst)), (1, 1));
    for keep in 1..records.len() {
        let (model, calls) = (Arc::new(Digging::default()), Arc::new(AtomicUsize::new(0)));
        let engine = engine(&model, &calls, holding(records[..keep].to_vec()).await);
        let resumed = engine.resume(&"r".into(), ResumeOptions::default()).await.unwrap();
        let again = resumed.finished().await.unwrap();
        assert_eq!((again.status, &again.result), (outcome.status, &outcome.result), "after event {keep}");
        assert_eq!(again.used, outcome.used, "after event {keep}");
    }
}

#[tokio::test]
async fn a_session_without_tools_or_with_a_tool_of_that_name_keeps_no_results() {
    let none = HostSessions::builder().models(Models::only(Arc::new(Digging::default()))).build().unwrap();
    assert_eq!(open(&none, Session::default()).await.unwrap().result_limit, None);
    let taken = HostSessions::builder()
        .models(Models::only(Arc::new(Digging::default())))
        .tool(echo("read_result", None))
        .build()
        .unwrap();
    assert_eq!(open(&taken, Session::default()).await.unwrap().result_limit, None);
    let world = world();
    let sessions = world.builder.build().unwrap();
    let own = Session { result_limit: Some(5_000), ..Session::default() };
    assert_eq!(open(&sessions, own).await.unwrap().result_limit, Some(5_000));
    assert_eq!(open(&sessions, Session::default()).await.unwrap().result_limit, Some(64 << 10));
}
