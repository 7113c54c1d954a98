//! Runs that ask, and those who answer them.

use super::builder;
use opcell::{Delivery, MemoryJournal, Question, ResumeOptions, prelude::*};
use std::time::Duration;

const SHIPPING: &str = r#"{:name "shipping" :description "Asks before it ships"
 :steps [{:name "ask" :type :wait :signal "ship" :approval true :question "Ship it?"}
         {:name "ship" :type :exit :status :success :output {:from {:step "ask" :output :data} :path [:why]}}]}"#;

async fn started(host: &Host, options: RunOptions) -> Run {
    host.start_with(&Workflow::compile("shipping.edn", SHIPPING).unwrap(), Value::Null, options).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_says_so_and_an_answer_by_name_ends_it() {
    let host = builder().build().await.unwrap();
    let run = started(&host, RunOptions::default()).await;
    let mut updates = run.updates().await.unwrap();
    let mut kinds = Vec::new();
    while let Some(update) = updates.next().await {
        match update {
            RunUpdate::Happened(recorded) => kinds.push(recorded.event.kind().to_owned()),
            RunUpdate::Suspended(questions) => {
                assert!(matches!(&questions[..], [Question::Signal { name, approval: true, .. }] if &**name == "ship"));
                let typo = run.approve("shipp", Decision::approve()).await.unwrap_err();
                assert_eq!(typo.kind(), "not-asked");
                let unknown = run.signal("shipp", true, None).await.unwrap_err();
                assert_eq!(unknown.kind(), "unknown-signal");
                let delivery = run.approve("ship", Decision::approve().by("ann").why("paid")).await.unwrap();
                assert_eq!(delivery, Delivery::Now("ask".into()));
                let twice = run.approve("ship", Decision::refuse()).await.unwrap_err();
                assert!(["already-answered", "not-asked", "run-ended"].contains(&twice.kind()), "{twice}");
                kinds.push("suspended".to_owned());
            }
            _ => {}
        }
    }
    assert_eq!(kinds.iter().filter(|kind| *kind == "suspended").count(), 1, "{kinds:?}");
    let end = run.outcome().await.unwrap().ended().unwrap();
    assert_eq!(end.result, Value::from("paid"), "{end:?}");
}

/// Buys for 500, and says when it has.
struct Buyer;

#[async_trait]
impl Model for Buyer {
    async fn complete(&self, round: &ModelRound, _: Option<&dyn TextSink>) -> Result<ModelReply, Failure> {
        let has_bought = round.messages.iter().any(|message| message.tool_call_id.is_some());
        Ok(match has_bought {
            true => ModelReply::text(&round.model, "bought"),
            false => ModelReply::text(&round.model, "").calling("1", "shop.buy", opcell::json!({"amount": 500})),
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_arguments_of_a_models_call_are_changed_before_it_is_made() {
    let schema = opcell::json!({"type": "object", "properties": {"amount": {"type": "integer"}}});
    let bought = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = bought.clone();
    let buy = opcell::tool_fn_with_schema("shop.buy", "Buys something.", schema, move |of: Value, _| {
        seen.lock().unwrap().push(of);
        async { Ok("bought") }
    });
    let host = builder().model(Buyer).document_tool(buy).build().await.unwrap();
    let text = r#"{:name "buy" :description "Buys" :steps [{:name "buy" :type :session :model "m/n" :tools ["shop.buy"]
        :approve :always :contributions [{:type :template :text "Buy." :vars {}}]}]}"#;
    let workflow = Workflow::compile("buy.edn", text).unwrap();
    let options = RunOptions { detach: true, ..RunOptions::default() };
    let run = host.start_with(&workflow, Value::Null, options).await.unwrap();
    let Outcome::Suspended(questions) = run.outcome().await.unwrap() else { panic!("it does not ask") };
    let [Question::Call { id, tool, arguments, .. }] = &questions[..] else { panic!("{questions:?}") };
    assert_eq!((&**tool, arguments), ("shop.buy", &opcell::json!({"amount": 500})));
    let run = host.run(run.id());
    let unfit = Decision::approve().arguments(opcell::json!({"amount": "20"}));
    assert_eq!(run.approve(id, unfit).await.unwrap_err().kind(), "answer-not-taken");

    let less = Decision::approve().by("ann").arguments(opcell::json!({"amount": 20}));
    run.approve(id, less).await.unwrap();

    let run = host.resume(run.id(), ResumeOptions::default()).await.unwrap();
    let end = run.outcome().await.unwrap().ended().unwrap();
    assert_eq!((end.status, end.result), (Status::Completed, Value::from("bought")));
    assert_eq!(*bought.lock().unwrap(), [opcell::json!({"amount": 20})]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_says_whether_the_run_has_ended_waits_or_was_released() {
    let journal = MemoryJournal::new();
    let host = builder().journal(journal.clone()).build().await.unwrap();
    let detached = started(&host, RunOptions { detach: true, ..RunOptions::default() }).await;
    let outcome = detached.outcome().await.unwrap();
    assert!(matches!(&outcome, Outcome::Suspended(questions) if questions.len() == 1), "{outcome:?}");
    assert!(outcome.ended().is_err());

    let options = RunOptions { run: Some("kept".parse().unwrap()), ..RunOptions::default() };
    let kept = started(&host, options).await;
    host.close(Duration::ZERO).await;
    let released = kept.outcome().await.unwrap();
    assert!(matches!(released, Outcome::Released | Outcome::Suspended(_)), "{released:?}");

    // After a restart, one call takes up what was left.
    let later = builder().journal(journal).build().await.unwrap();
    let resumed = later.resume_all(ResumeOptions::default()).await.unwrap();
    assert_eq!(resumed.len(), 2, "{resumed:?}");
    assert!(later.resume_all(ResumeOptions::default()).await.unwrap().is_empty(), "they are driven already");
    for run in resumed {
        run.run.unwrap();
        // Through a handle by ID, as another part of the program has it.
        let by_id = later.run(&run.id);
        assert_eq!(by_id.state().await.unwrap().status, Status::Suspended);
        by_id.approve("ship", Decision::refuse().by("bob")).await.unwrap();
        assert_eq!(by_id.wait().await.unwrap().status, Status::Failed);
    }
    assert_eq!(later.run("nope").state().await.unwrap_err().to_string(), "the journal has no run `nope`");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_driven_here_is_not_said_to_be_driven_by_another_process() {
    let host = builder().build().await.unwrap();
    let run = started(&host, RunOptions::default()).await;
    let error = host.resume(run.id(), ResumeOptions::default()).await.unwrap_err().to_string();
    assert!(error.contains("this process drives it already") && !error.contains("stopped"), "{error}");
}
