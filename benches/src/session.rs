//! Sessions whose model calls a tool a thousand times: with a rule that asks a person about calls that change something,
//! and without one, where the tool changes nothing, so that no one is asked; and with a tool that shows pictures.

use crate::work;
use anyhow::Result;
use async_trait::async_trait;
use opcell_engine::{
    Program,
    approval::ToolApproval,
    conversation::{Message, ToolCallRequest},
    ports::{
        Effects, Failure, ModelReply, ModelRound, OpenSession, OpenedSession, Reply, Sessions, TextSink, ToolCall,
    },
};
use opcell_ir::ir::{ApprovalRule, Ask};
use opcell_types::{ToolDescription, Value};
use std::sync::Arc;

/// The calls of one answer.
const CALLS: usize = 10;

/// The answers with calls.
const ROUNDS: usize = 100;

const TOOL: &str = "look";

/// A model, and its tool.
#[derive(Debug, Clone, Copy)]
pub struct CallingModel {
    /// `true` if `approve = "unless-pure"`.
    pub asks: bool,
}

/// The workflow of one such session.
///
/// # Errors
/// When it is not a workflow.
pub fn program() -> Result<Arc<Program>> {
    work::program(
        r#"{"version":"workflow-ir/v1","name":"talks","steps":[{"name":"talk","type":"session",
            "session":{"tools":["look"],"max-rounds":101,"contributions":[{"type":"template","text":"work","vars":{}}]},
            "outputs":{"final-llm-reply":{"source":"session/final-llm-reply"}},
            "yields":{"type":"text","text":"final-llm-reply"}}]}"#,
    )
}

#[async_trait]
impl Sessions for CallingModel {
    async fn open(&self, request: OpenSession) -> Result<OpenedSession, Failure> {
        let approval = || ToolApproval {
            tool: TOOL.to_owned(),
            effects: Effects::Pure,
            identity: "the tool that is measured".into(),
            rules: vec![ApprovalRule::of(Ask::UnlessPure)].into(),
            approved: Vec::new(),
        };
        Ok(OpenedSession {
            system: "You are measured.".to_owned(),
            sections: Value::Null,
            models: vec!["model".to_owned()],
            tools: vec![ToolDescription::new(TOOL.to_owned(), "", Value::object::<&str>([]))],
            settings: request.session,
            parallel_tools: Vec::new(),
            narrowing: None,
            approvals: self.asks.then(approval).into_iter().collect(),
            code: None,
            augmenters: Vec::new(),
            windows: Vec::new(),
            result_limit: None,
        })
    }

    async fn complete(&self, round: ModelRound, _sink: Option<&dyn TextSink>) -> Result<ModelReply, Failure> {
        // Each answer with calls adds itself and their results.
        let answered = round.messages.len() / (CALLS + 1);
        let call = |number: usize| ToolCallRequest {
            id: format!("{answered}-{number}"),
            name: TOOL.to_owned(),
            arguments: Value::object([("path", Value::from(format!("notes/{answered}/{number}.md")))]),
        };
        let message = match answered < ROUNDS {
            true => Message { tool_calls: (0..CALLS).map(call).collect(), ..Message::assistant("") },
            false => Message::assistant("done"),
        };
        Ok(ModelReply { message, ..ModelReply::text(round.of.model, "") })
    }

    fn tool_effects(&self, _tool: &str) -> Effects {
        Effects::Pure
    }

    async fn call_tool(&self, _call: ToolCall) -> Reply<Value> {
        Ok(Value::from("seen")).into()
    }
}

/// A model that calls its tool a thousand times, which shows a new picture each time.
#[derive(Debug, Clone, Copy, Default)]
pub struct ShowingModel;

impl ShowingModel {
    /// The answers with a call.
    pub const TURNS: usize = 1_000;

    /// Bytes of each picture in base64.
    pub const PICTURE_BYTES: usize = 128 << 10;

    /// The workflow of one such session.
    ///
    /// # Errors
    /// When it is not a workflow.
    pub fn program() -> Result<Arc<Program>> {
        work::program(
            r#"{"version":"workflow-ir/v1","name":"shows","steps":[{"name":"show","type":"session",
                "session":{"tools":["look"],"max-rounds":1001,"contributions":[{"type":"template","text":"work","vars":{}}]},
                "outputs":{"final-llm-reply":{"source":"session/final-llm-reply"}},
                "yields":{"type":"text","text":"final-llm-reply"}}]}"#,
        )
    }
}

#[async_trait]
impl Sessions for ShowingModel {
    async fn open(&self, request: OpenSession) -> Result<OpenedSession, Failure> {
        CallingModel { asks: false }.open(request).await
    }

    async fn complete(&self, round: ModelRound, _sink: Option<&dyn TextSink>) -> Result<ModelReply, Failure> {
        let answered = round.messages.len() / 2;
        let call = || ToolCallRequest {
            id: format!("call-{answered}"),
            name: TOOL.to_owned(),
            arguments: Value::object([("number", Value::from(answered))]),
        };
        let message = match answered < Self::TURNS {
            true => Message { tool_calls: vec![call()], ..Message::assistant("") },
            false => Message::assistant("done"),
        };
        Ok(ModelReply { message, ..ModelReply::text(round.of.model, "") })
    }

    fn tool_effects(&self, _tool: &str) -> Effects {
        Effects::Pure
    }

    async fn call_tool(&self, call: ToolCall) -> Reply<Value> {
        // Each has its own bytes, so that none is kept for another.
        let number = call.request.arguments.get("number").map(Value::to_json).unwrap_or_default();
        let data = format!("{number:0>8}").repeat(Self::PICTURE_BYTES / 8);
        let picture = [("type", Value::from("image")), ("mimeType", Value::from("image/png")), ("data", data.into())];
        Ok(Value::array([Value::object(picture)])).into()
    }
}
