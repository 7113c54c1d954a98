//! Pictures of tools' results: each protocol has them where its provider expects them, and a model that reads text only
//! is told of them.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use super::provider_support::{anthropic_call, anthropic_text, ask, gemini_text, key, models, openai_text};
use super::test_server::{Canned, Server};
use super::*;
use crate::HostSessions;
use crate::tools::{FileRoot, FileRoots, file_tools};
use opcell_engine::conversation::{Message, Picture, ToolCallRequest};
use opcell_engine::{Engine, Program, RunOptions, Status};
use opcell_ir::source::SourceFile;
use opcell_types::{Value, quota::ThisProcess};
use opcell_workflow::{companions::NoCompanions, document};
use serde_json::{Value as Json, json};

const DATA: &str = "iVBORw0KGgo=";

/// A conversation that ends with two results, of which the first has a picture and has lost two.
fn asked() -> ModelRound {
    let mut asked = ask("look");
    let call = |id: &str| ToolCallRequest {
        id: id.to_owned(),
        name: "look".to_owned(),
        arguments: Value::from_json("{}").unwrap(),
    };
    let picture = Picture { mime_type: "image/png".into(), data: DATA.into() };
    asked.messages.push(Message { tool_calls: vec![call("c-1"), call("c-2")], ..Message::assistant("") });
    asked.messages.push(Message {
        pictures: vec![picture],
        pictures_forgotten: 2,
        ..Message::tool("c-1", "seen", false)
    });
    asked.messages.push(Message::tool("c-2", "nothing", false));
    asked
}

const APIS: [Api; 5] = [Api::OpenaiCompletions, Api::OpenaiResponses, Api::AnthropicMessages, Api::Gemini, Api::Ollama];

fn answer(api: Api) -> Json {
    match api {
        Api::OpenaiCompletions | Api::Ollama => openai_text("fine"),
        Api::OpenaiResponses => {
            let message = json!({"type": "message", "id": "m", "content": [{"type": "output_text", "text": "fine"}]});
            json!({"object": "response", "status": "completed", "output": [message]})
        }
        Api::AnthropicMessages => anthropic_text("fine"),
        Api::Gemini => gemini_text("fine"),
    }
}

async fn sent(api: Api, sees: Option<bool>) -> Json {
    let server = Server::start(vec![Canned::json(answer(api))]).await;
    let key = key();
    let models = models(&server, api, &key, |provider| provider.models[0].supports_images = sees);
    models.complete(&asked(), None).await.unwrap();
    server.asked().remove(0).body
}

#[tokio::test]
async fn each_protocol_has_pictures_where_its_provider_expects_them() {
    let url = format!("data:image/png;base64,{DATA}");
    for (api, place, expected) in [
        (
            Api::AnthropicMessages,
            "/messages/2/content/0/content/1",
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}}),
        ),
        (Api::OpenaiCompletions, "/messages/5/content/1", json!({"type": "image_url", "image_url": {"url": url}})),
        (Api::OpenaiResponses, "/input/3/output/1", json!({"type": "input_image", "image_url": url})),
        (Api::Gemini, "/contents/2/parts/2", json!({"inlineData": {"mimeType": "image/png", "data": DATA}})),
    ] {
        let body = sent(api, Some(true)).await;
        let found = body.to_string().matches(DATA).count();
        assert_eq!((found, body.pointer(place)), (1, Some(&expected)), "{api:?}: {body:#}");
        let text = body.to_string();
        assert!(text.contains("[2 pictures are not shown: the conversation has no room"), "{api:?}: {text}");
        assert!(!text.contains("reads text only"), "{api:?}: {text}");
    }
}

#[tokio::test]
async fn a_model_that_reads_text_only_is_told_of_pictures() {
    for api in APIS {
        let text = sent(api, Some(false)).await.to_string();
        assert!(!text.contains(DATA), "{api:?}: {text}");
        assert!(text.contains("seen\\n[1 picture is not shown: this model reads text only.]"), "{api:?}: {text}");
    }
}

#[tokio::test]
async fn what_is_not_known_of_a_model_goes_by_its_protocol_and_its_name() {
    for api in APIS {
        let sees = sent(api, None).await.to_string().contains(DATA);
        // The model is called `m-1`, and chat completions are how most models are served.
        assert_eq!(sees, !matches!(api, Api::OpenaiCompletions | Api::Ollama), "{api:?}");
    }
}

const WORKFLOW: &str = r#"
{:name "look" :description "Looks."
 :steps [{:name "s" :type :session :tools ["read"] :model "test/m-1"
          :contributions [{:type :template :text "Hi"}]}]}
"#;

#[tokio::test]
async fn a_model_that_reads_a_picture_is_shown_it_whatever_the_file_is_called() {
    let call = anthropic_call("read", json!({"path": "drawing.txt"}));
    let server = Server::start(vec![Canned::json(call), Canned::json(anthropic_text("fine"))]).await;
    let (key, work) = (key(), tempfile::TempDir::new().unwrap());
    std::fs::write(work.path().join("drawing.txt"), crate::tools::png(3, 2)).unwrap();
    let root = FileRoot::read("work", work.path().to_owned());
    let roots = FileRoots::open(&[root], &Arc::default(), &ThisProcess).unwrap();
    let sessions = HostSessions::builder()
        .models(models(&server, Api::AnthropicMessages, &key, |_| {}))
        .tools(file_tools(roots, Arc::default()))
        .build()
        .unwrap();
    let compiled = document::compile(&SourceFile::new("look.edn", WORKFLOW), &NoCompanions);
    let program = Program::new(compiled.ir.unwrap_or_else(|| panic!("{:?}", compiled.diagnostics))).unwrap();
    let engine = Engine::builder().sessions(Arc::new(sessions)).build();
    let input = Value::from_json("{}").unwrap();
    let outcome = engine.start(program, input, RunOptions::default()).await.unwrap().finished().await.unwrap();
    assert_eq!(outcome.status, Status::Completed, "{:?}", outcome.message);
    let asked = server.asked();
    let content = &asked[1].body["messages"][2]["content"][0]["content"];
    assert_eq!(content[0]["text"], r#"[{"type":"image","mimeType":"image/png","picture":1}]"#, "{content}");
    assert_eq!(content[1]["source"]["media_type"], "image/png", "{content}");
}
