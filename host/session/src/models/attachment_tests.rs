//! Attachments of tools' results: each protocol has them where its provider expects them, and a model that reads text only
//! is told of them.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use super::provider_support::{anthropic_call, anthropic_text, ask, gemini_text, key, models, openai_text};
use super::test_server::{Canned, Server};
use super::*;
use crate::HostSessions;
use crate::tools::{FileRoot, FileRoots, file_tools};
use opcell_engine::conversation::{Attachment, Message, ToolCallRequest};
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
    let picture = Attachment { mime_type: "image/png".into(), data: DATA.into() };
    asked.messages.push(Message { tool_calls: vec![call("c-1"), call("c-2")], ..Message::assistant("") });
    asked.messages.push(Message {
        attachments: vec![picture],
        attachments_forgotten: 2,
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
        assert!(text.contains("[2 attachments are not shown: the conversation has no room"), "{api:?}: {text}");
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

/// A conversation that ends with a result that has a document and a recording.
fn with_files(audio: &str) -> ModelRound {
    let mut asked = asked();
    let attachments = ["application/pdf", audio].map(|kind| Attachment { mime_type: kind.into(), data: DATA.into() });
    asked.messages = Vec::from_iter(asked.messages.iter().take(2).cloned()).into();
    asked.messages.push(Message { attachments: attachments.into(), ..Message::tool("c-1", "seen", false) });
    asked.messages.push(Message::tool("c-2", "nothing", false));
    asked
}

async fn sent_files(api: Api, audio: &str, takes: Option<bool>) -> (Json, Vec<String>) {
    let server = Server::start(vec![Canned::json(answer(api))]).await;
    let key = key();
    let models = models(&server, api, &key, |provider| {
        (provider.models[0].supports_documents, provider.models[0].supports_audio) = (takes, takes);
    });
    let reply = models.complete(&with_files(audio), None).await.unwrap();
    let warnings = reply.warnings.iter().map(ToString::to_string).collect();
    (server.asked().remove(0).body, warnings)
}

#[tokio::test]
async fn documents_and_recordings_go_where_a_protocol_takes_them() {
    let url = format!("data:application/pdf;base64,{DATA}");
    let file = json!({"type": "base64", "media_type": "application/pdf", "data": DATA});
    for (api, audio, places, warnings) in [
        (
            Api::AnthropicMessages,
            "audio/wav",
            vec![("/messages/2/content/0/content/1", json!({"type": "document", "source": file}))],
            1,
        ),
        (
            Api::OpenaiCompletions,
            "audio/mpeg",
            vec![
                (
                    "/messages/5/content/1",
                    json!({"type": "file", "file": {"filename": "document.pdf", "file_data": url}}),
                ),
                (
                    "/messages/5/content/2",
                    json!({"type": "input_audio", "input_audio": {"data": DATA, "format": "mp3"}}),
                ),
            ],
            0,
        ),
        (Api::OpenaiCompletions, "audio/flac", vec![], 1),
        (
            Api::OpenaiResponses,
            "audio/wav",
            vec![("/input/3/output/1", json!({"type": "input_file", "filename": "document.pdf", "file_data": url}))],
            1,
        ),
        (
            Api::Gemini,
            "audio/mpeg",
            vec![
                ("/contents/2/parts/2", json!({"inlineData": {"mimeType": "application/pdf", "data": DATA}})),
                ("/contents/2/parts/3", json!({"inlineData": {"mimeType": "audio/mp3", "data": DATA}})),
            ],
            0,
        ),
    ] {
        let (body, warned) = sent_files(api, audio, Some(true)).await;
        for (place, expected) in places {
            assert_eq!(body.pointer(place), Some(&expected), "{api:?}: {body:#}");
        }
        let text = body.to_string();
        assert_eq!(
            (text.matches("[1 recording is not shown: ").count(), warned.len()),
            (warnings, warnings),
            "{api:?}"
        );
        assert!(!text.contains("document is not shown"), "{api:?}: {text}");
    }
}

#[tokio::test]
async fn a_model_that_takes_no_files_reads_a_sentence_and_people_a_warning() {
    for api in APIS {
        let (body, warned) = sent_files(api, "audio/wav", Some(false)).await;
        let text = body.to_string();
        assert!(!text.contains(DATA), "{api:?}: {text}");
        assert!(text.contains("[1 document is not shown: this model reads no documents.]"), "{api:?}: {text}");
        assert!(warned[0].starts_with("1 document is not shown to `test/m-1`") && warned.len() == 2, "{warned:?}");
        assert!(warned[1].contains("`supports-audio`"), "{warned:?}");
    }
    // The name of a model that is served by chat completions says nothing of `m-1`.
    assert_eq!(sent_files(Api::Ollama, "audio/wav", None).await.1.len(), 2);
    assert_eq!(sent_files(Api::Gemini, "audio/wav", None).await.1.len(), 0);
}

const WORKFLOW: &str = r#"
{:name "look" :description "Looks."
 :steps [{:name "s" :type :session :tools ["read"] :model "test/m-1"
          :contributions [{:type :template :text "Hi"}]}]}
"#;

#[tokio::test]
async fn a_model_that_reads_a_picture_is_shown_it_whatever_the_file_is_called() {
    for (bytes, rest, media_type) in [
        (crate::tools::png(3, 2), r#"[{"type":"image","mimeType":"image/png","picture":1}]"#, "image/png"),
        (crate::tools::pdf(), r#"[{"type":"file","mimeType":"application/pdf","document":1}]"#, "application/pdf"),
    ] {
        reads(&bytes, rest, media_type).await;
    }
}

async fn reads(bytes: &[u8], rest: &str, media_type: &str) {
    let call = anthropic_call("read", json!({"path": "drawing.txt"}));
    let server = Server::start(vec![Canned::json(call), Canned::json(anthropic_text("fine"))]).await;
    let (key, work) = (key(), tempfile::TempDir::new().unwrap());
    std::fs::write(work.path().join("drawing.txt"), bytes).unwrap();
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
    assert_eq!(content[0]["text"], rest, "{content}");
    assert_eq!(content[1]["source"]["media_type"], media_type, "{content}");
}
