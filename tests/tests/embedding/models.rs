//! Models of the program.

use super::builder;
use opcell::prelude::*;
use std::sync::{Arc, Mutex};

/// Repeats what the user said last.
struct Parrot;

#[async_trait]
impl Model for Parrot {
    async fn complete(&self, round: &ModelRound, sink: Option<&dyn TextSink>) -> Result<ModelReply, Failure> {
        let said = round.messages.last_of_user().map(|message| message.content.clone()).unwrap_or_default();
        if said.contains("panic") {
            panic!("a defect of the program");
        }
        // Pieces of the answer, for whoever follows the run while the answer comes.
        if let Some(sink) = sink {
            said.split_inclusive(' ').for_each(|piece| sink.text(piece));
        }
        Ok(ModelReply::text(&round.model, format!("{}: {said}", round.model)))
    }
}

/// Keeps what it is told, and panics at every second piece.
#[derive(Default)]
struct Shown(Mutex<Vec<String>>);

impl RunText for Shown {
    fn text(&self, _: opcell::EffectId, piece: &str) {
        let count = {
            let mut shown = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            shown.push(piece.to_owned());
            shown.len()
        };
        assert!(count % 2 == 1, "a defect of the program");
    }
}

fn asking(model: &str, said: &str) -> Workflow {
    let text = format!(
        r#"{{:name "ask" :description "Asks a model" :steps [{{:name "ask" :type :session :model "{model}" :contributions [{{:type :template :text "{said}" :vars {{}}}}]}}]}}"#
    );
    Workflow::compile("ask.edn", text).unwrap()
}

async fn asked(host: &Host, model: &str, said: &str) -> RunOutcome {
    let run = host.start(&asking(model, said), Value::Null).await.unwrap();
    run.outcome().await.unwrap().ended().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_of_the_program_answers_for_every_model() {
    let host = builder().model(Parrot).build().await.unwrap();
    let end = asked(&host, "openai/gpt", "hello there").await;
    assert!(end.result.as_str().unwrap().starts_with("openai/gpt: "), "{end:?}");
    assert!(end.result.as_str().unwrap().contains("hello there"), "{end:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_of_the_program_answers_for_its_models_and_no_other() {
    let host = builder().provider("mine", Parrot).build().await.unwrap();
    assert_eq!(asked(&host, "mine/large", "hello").await.status, Status::Completed);
    let other = asked(&host, "nowhere/large", "hello").await;
    assert_eq!(other.status, Status::Failed, "{other:?}");
    for taken in ["openai", "", "a/b"] {
        let error = builder().provider(taken, Parrot).build().await.err().unwrap().to_string();
        assert!(error.contains("provider"), "{error}");
    }
    let both = builder().provider("mine", Parrot).model(Parrot).build().await.err().unwrap().to_string();
    assert!(both.contains("answers for all"), "{both}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pieces_of_an_answer_reach_the_reader_whatever_a_sink_does() {
    let host = builder().model(Parrot).build().await.unwrap();
    let shown = Arc::new(Shown::default());
    let options = RunOptions { sink: Some(shown.clone()), ..RunOptions::default() };
    let run = host.start_with(&asking("m/n", "one two three"), Value::Null, options).await.unwrap();
    let end = run.outcome().await.unwrap().ended().unwrap();
    assert_eq!(end.status, Status::Completed, "{end:?}");
    let shown = shown.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).concat();
    assert!(shown.contains("one two three"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_of_a_model_fails_its_round_and_nothing_else() {
    let host = builder().model(Parrot).build().await.unwrap();
    let end = asked(&host, "m/n", "panic").await;
    assert_eq!(end.status, Status::Failed, "{end:?}");
    assert!(format!("{end:?}").contains("panicked"), "{end:?}");
    assert_eq!(asked(&host, "m/n", "hello").await.status, Status::Completed);
}
