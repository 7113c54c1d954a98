//! Summaries by a model: what is asked, what is sent instead, what happens when there is none, and that a run which is
//! killed after any event ends as the undisturbed one.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use super::*;
use crate::HostSessions;
use crate::tools::SessionTool;
use opcell_engine::call::{ModelReply, Summary};
use opcell_engine::conversation::{Message, Role, Usage};
use opcell_engine::event::{EffectReply, Event};
use opcell_engine::ports::{Effects, Failure, ModelRound, TextSink};
use opcell_engine::tool::{Tool, ToolInput};
use opcell_engine::{Engine, Program, ResumeOptions, RunOptions, RunOutcome, Status};
use opcell_ir::ir::{Compaction, CompactionBy, Pin, Session};
use opcell_ir::source::SourceFile;
use opcell_journal::{Journal, MemoryJournal, NewRun, Record, RunId};
use opcell_types::{ToolDescription, Value};
use opcell_workflow::{companions::NoCompanions, document};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Files that the model reads before it answers.
const FILES: usize = 30;

/// The file that is read with the tool `keep`, which a rule may pin.
const PINNED: usize = 2;

/// The answer to a question for a summary.
#[derive(Clone, Copy)]
enum Writes {
    /// A short text, which names what it has seen.
    Summary,
    Empty,
    /// More than what it replaces.
    TooMuch,
    Fails,
    Never,
}

/// Reads one file after the other, by what the last message says, and writes summaries. Knows what it was sent.
struct Reader {
    writes: Writes,
    /// A digest of each request, with its first message.
    asked: Mutex<Vec<(String, String)>>,
    /// The messages of each request that is not for a summary.
    sent: Mutex<Vec<String>>,
}

impl Reader {
    fn new(writes: Writes) -> Arc<Self> {
        Arc::new(Self { writes, asked: Mutex::default(), sent: Mutex::default() })
    }

    fn digests(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().map(|(digest, _)| digest.clone()).collect()
    }

    fn firsts(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().map(|(_, first)| first.clone()).collect()
    }
}

#[async_trait]
impl Model for Reader {
    async fn complete(&self, round: &ModelRound, _: Option<&dyn TextSink>) -> Result<ModelReply, Failure> {
        let sent = serde_json::to_string(&round.messages).unwrap();
        let first = round.messages.iter().next().unwrap().content.clone();
        let digest = blake3::hash(format!("{}{}{sent}", round.model, round.session.system).as_bytes()).to_hex();
        self.asked.lock().unwrap().push((digest.to_string(), first.clone()));
        // More than the estimate: the lesson has to be in the journal for a resumed run to cut at the same places.
        let usage =
            Usage { input_tokens: sent.len() as u64 / 2, output_tokens: 10, cost: Some(0.25), ..Usage::default() };
        let reply = |text: &str| ModelReply { usage, ..ModelReply::text(&round.model, text) };
        if round.session.system.starts_with("You summarise") {
            assert!(round.session.tools.is_empty() && round.schema.is_none());
            return match self.writes {
                Writes::Summary => Ok(reply(&format!("Seen: {}.", first.matches("file ").count()))),
                Writes::Empty => Ok(reply(" \n")),
                Writes::TooMuch => Ok(reply(&"too much ".repeat(20_000))),
                Writes::Fails => Err(failure("overloaded", "come back later")),
                Writes::Never => {
                    tokio::time::sleep(Duration::from_secs(1_000_000)).await;
                    unreachable!()
                }
            };
        }
        self.sent.lock().unwrap().push(sent);
        let last = round.messages.last().unwrap();
        let next = match last.role {
            Role::Tool => last.content.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() + 1,
            _ => 0,
        };
        match next < FILES {
            true => Ok(reply("Next.").calling(
                format!("c{next}"),
                if next == PINNED { "keep" } else { "fetch" },
                Value::object([("n", Value::from(next as i64))]),
            )),
            false => Ok(reply("All read.")),
        }
    }
}

/// Gives a file of 2,000 bytes, which begins with its number.
struct Fetch(ToolDescription);

#[async_trait]
impl Tool for Fetch {
    fn description(&self) -> &ToolDescription {
        &self.0
    }

    fn effects(&self) -> Effects {
        Effects::Pure
    }

    async fn call(&self, input: &ToolInput) -> Result<Value, Failure> {
        let number = input.arguments.get("n").map(Value::to_json).unwrap_or_default();
        Ok(Value::from(format!("file {number} {}", "x".repeat(2_000))))
    }
}

const WORKFLOW: &str = r#"
{:name "read" :description "Reads."
 :steps [{:name "s" :type :session :tools ["fetch" "keep"] :model "test/m-1"
          :contributions [{:type :template :text "Read them all."}]}]}
"#;

fn rule(by: CompactionBy) -> Compaction {
    Compaction { by, model: Some("test/small".to_owned()), keep_rounds: 3, ..Compaction::default() }
}

fn engine(reader: &Arc<Reader>, compaction: Compaction, journal: MemoryJournal) -> Engine {
    let listed = |id: &str| ModelConfig { id: id.to_owned(), context_window: Some(12_000), ..ModelConfig::default() };
    let provider = ProviderConfig {
        models: vec![listed("m-1"), listed("small")],
        ..ProviderConfig::new(Api::OpenaiCompletions, None)
    };
    let providers = [("test".to_owned(), provider)].into_iter().collect();
    let models = Models::new(ModelsConfig { providers, ..ModelsConfig::default() }).unwrap();
    let parameters = Value::from_json(r#"{"type":"object"}"#).unwrap();
    let tool = |name: &str| {
        let description = ToolDescription::new(name, "Fetches.", parameters.clone());
        SessionTool::new(Arc::new(Fetch(description)))
    };
    let sessions = HostSessions::builder()
        .models(models.answered_by("test", reader.clone()))
        .tool(tool("fetch"))
        .tool(tool("keep"))
        .defaults(Session { compaction: Some(compaction), ..Session::default() })
        // The date is a part of the prompt.
        .runtime_metadata(Arc::new(Vec::new))
        .build()
        .unwrap();
    Engine::builder().sessions(Arc::new(sessions)).journal(Arc::new(journal)).build()
}

async fn run(reader: &Arc<Reader>, compaction: Compaction) -> (RunOutcome, Vec<Record>) {
    let engine = engine(reader, compaction, MemoryJournal::new());
    let compiled = document::compile(&SourceFile::new("read.edn", WORKFLOW), &NoCompanions);
    let program = Program::new(compiled.ir.unwrap_or_else(|| panic!("{:?}", compiled.diagnostics))).unwrap();
    let options = RunOptions { run: Some("r".parse().unwrap()), ..RunOptions::default() };
    let started = engine.start(program, Value::from_json("{}").unwrap(), options).await.unwrap();
    let outcome = started.finished().await.unwrap();
    (outcome, engine.journal().read(&"r".into(), 0, 10_000).await.unwrap())
}

/// The answers of models that records hold.
fn answers(records: &[Record]) -> Vec<ModelReply> {
    let events = records.iter().map(|record| serde_json::from_str::<Event>(&record.payload).unwrap());
    let answer = |event: Event| match event {
        Event::Replied { reply, .. } => match *reply {
            EffectReply::Round(Ok(reply)) => Some(*reply),
            _ => None,
        },
        _ => None,
    };
    events.filter_map(answer).collect()
}

fn summaries(records: &[Record]) -> Vec<Summary> {
    answers(records).into_iter().filter_map(|reply| reply.summary).map(|summary| *summary).collect()
}

#[tokio::test]
async fn a_long_run_is_summarised_and_every_summary_replaces_the_one_before() {
    let reader = Reader::new(Writes::Summary);
    let (outcome, records) = run(&reader, rule(CompactionBy::Model)).await;
    assert_eq!((outcome.status, outcome.result), (Status::Completed, Value::from("All read.")));
    let summaries = summaries(&records);
    assert!(summaries.len() >= 3, "{summaries:?}");
    assert!(summaries.iter().all(|summary| summary.failure.is_none() && summary.from == 1), "{summaries:?}");
    assert!(summaries.windows(2).all(|pair| pair[0].to < pair[1].to), "{summaries:?}");
    assert!(summaries.iter().all(|summary| summary.tokens_after < summary.tokens_before && summary.limit > 0));
    // Each is an answer of its own, with its model and its cost; none of them is a message.
    let answers = answers(&records);
    assert!(answers.iter().all(|reply| reply.usage.cost == Some(0.25)));
    assert_eq!(answers.len(), FILES + 1 + summaries.len());
    assert_eq!(outcome.used.rounds, answers.len() as u64);
    let wrote = answers.iter().filter(|reply| reply.summary.is_some());
    assert!(wrote.into_iter().all(|reply| reply.model == "test/small" && reply.message.content.is_empty()));
    let firsts = reader.firsts();
    assert!(firsts.iter().any(|first| first.starts_with("Read them all.\n\n[To make room, the ")), "{firsts:?}");
    // A later summary is asked for with the earlier one, and sees each message once.
    let asked: Vec<&String> = firsts.iter().filter(|first| first.starts_with("Summarise this part")).collect();
    assert_eq!(asked.len(), summaries.len());
    assert!(!asked[0].contains("[Summary of what came before]"));
    assert!(asked[1].contains(&format!("[Summary of what came before]\n{}\n", summaries[0].text)), "{}", asked[1]);
    assert!(!asked[1].contains("file 0 "), "{}", asked[1]);
}

#[tokio::test]
async fn pinned_results_are_whole_in_every_request_also_of_a_run_that_was_killed() {
    let whole_result = format!("file {PINNED} xxxx");
    // The requests after the one that the result first was in.
    let later = |reader: &Reader| -> Vec<String> {
        let sent = reader.sent.lock().unwrap();
        sent.iter().filter(|sent| sent.contains(&format!("file {} ", FILES / 2))).cloned().collect()
    };
    for by in [CompactionBy::Model, CompactionBy::Rule] {
        let without = Reader::new(Writes::Summary);
        run(&without, rule(by)).await;
        assert!(later(&without).iter().any(|sent| !sent.contains(&whole_result)), "{by:?}: everything stayed");

        let pin = Pin { tools: vec!["keep".to_owned()], ..Pin::default() };
        let pinning = Compaction { pin, ..rule(by) };
        let reader = Reader::new(Writes::Summary);
        let (expected, records) = run(&reader, pinning.clone()).await;
        let compacted = answers(&records).iter().filter(|reply| reply.compacted.is_some()).count();
        assert!(compacted + summaries(&records).len() >= 3, "{by:?}");
        // With the call that it answers.
        let is_kept = |sent: &String| sent.contains(&whole_result) && sent.matches("\"c2\"").count() == 2;
        assert!(!later(&reader).is_empty() && later(&reader).iter().all(is_kept), "{by:?}");
        for keep in (records.len() / 2..records.len()).step_by(5) {
            let answered = answers(&records[..keep]).len();
            let resumed = Reader::new(Writes::Summary);
            let engine = engine(&resumed, pinning.clone(), holding(records[..keep].to_vec()).await);
            let run = engine.resume(&"r".into(), ResumeOptions::default()).await.unwrap();
            let outcome = run.finished().await.unwrap();
            assert_eq!((outcome.status, &outcome.result), (expected.status, &expected.result), "after event {keep}");
            assert_eq!(resumed.digests(), reader.digests()[answered..], "{by:?}: after event {keep}");
        }
    }
}

/// A journal whose run ends with these records, as its driver left it when it died.
async fn holding(records: Vec<Record>) -> MemoryJournal {
    let (journal, run): (_, RunId) = (MemoryJournal::new(), "r".into());
    let fence = journal.create(NewRun { records, ..NewRun::empty(&run, "read", 0) }).await.unwrap();
    journal.release(&run, fence).await.unwrap();
    journal
}

#[tokio::test]
async fn a_run_that_is_killed_after_any_event_ends_as_the_undisturbed_one_with_the_same_requests() {
    for by in [CompactionBy::Model, CompactionBy::Rule] {
        let whole = Reader::new(Writes::Summary);
        let (expected, records) = run(&whole, rule(by)).await;
        let asked = whole.digests();
        let compacted = answers(&records).iter().filter(|reply| reply.compacted.is_some()).count();
        match by {
            CompactionBy::Model => assert!(summaries(&records).len() >= 3),
            _ => assert!(compacted >= 3, "{compacted}"),
        }
        for keep in 1..records.len() {
            let answered = answers(&records[..keep]).len();
            let reader = Reader::new(Writes::Summary);
            let engine = engine(&reader, rule(by), holding(records[..keep].to_vec()).await);
            let resumed = engine.resume(&"r".into(), ResumeOptions::default()).await.unwrap();
            let outcome = resumed.finished().await.unwrap();
            assert_eq!((outcome.status, &outcome.result), (expected.status, &expected.result), "after event {keep}");
            assert_eq!(outcome.used, expected.used, "after event {keep}");
            assert_eq!(reader.digests(), asked[answered..], "{by:?}: after event {keep}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_summary_that_is_of_no_use_falls_back_to_the_rule_and_never_fails_the_run() {
    for (writes, reason, is_paid) in [
        (Writes::Empty, "summary-empty", true),
        (Writes::TooMuch, "summary-too-long", true),
        (Writes::Fails, "overloaded", false),
        (Writes::Never, "timeout", false),
    ] {
        let reader = Reader::new(writes);
        let (outcome, records) = run(&reader, rule(CompactionBy::Model)).await;
        assert_eq!((outcome.status, outcome.result), (Status::Completed, Value::from("All read.")), "{reason}");
        let failed = summaries(&records);
        // Not for every round again.
        assert!((2..=3).contains(&failed.len()), "{reason}: {}", failed.len());
        for summary in &failed {
            assert_eq!(&*summary.failure.as_ref().unwrap().reason, reason);
            assert!(summary.text.is_empty());
        }
        let replies = answers(&records);
        let paid = replies.iter().filter(|reply| reply.summary.is_some()).all(|reply| reply.usage.cost.is_some());
        assert_eq!(paid, is_paid, "{reason}");
        assert!(replies.iter().any(|reply| reply.compacted.is_some()), "{reason}");
    }
}

#[test]
fn messages_that_are_summarised_are_shown_in_bounds() {
    let mut asked = crate::testing::round("s", vec![Message::user("Task.")]);
    for round in 0..200 {
        let mut answer = Message::assistant(format!("answer {round}"));
        answer.tool_calls.push(opcell_engine::conversation::ToolCallRequest {
            id: format!("c{round}"),
            name: "fetch".to_owned(),
            arguments: Value::from_json("{}").unwrap(),
        });
        asked.messages.push(answer);
        asked.messages.push(Message::tool(format!("c{round}"), format!("{round} {}", "x".repeat(60_000)), false));
    }
    let rule = rule(CompactionBy::Model);
    let plan = crate::compaction::plan(&asked, &rule, 100_000, opcell_engine::call::CompactionReason::Threshold);
    for (window, room) in [(200_000, 160_000), (20_000, 16_000)] {
        let window = opcell_engine::call::ModelWindow {
            model: "small".to_owned(),
            tokens: Some(window),
            lesson: opcell_engine::call::WindowLesson::default(),
        };
        let question = plan.as_ref().unwrap().question(&asked, &rule, &window);
        let sent = crate::compaction::estimated(&question);
        assert!(sent <= room && sent > room / 20, "{sent} of {room}");
        let text = &question.messages.iter().next().unwrap().content;
        assert!(text.ends_with("</conversation>") && text.contains("answer 196"), "{}", text.len());
        assert!(!text.contains("answer 197"), "the newest rounds stay whole");
    }
}
