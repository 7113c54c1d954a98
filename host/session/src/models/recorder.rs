//! Writes a model script from a real session.

use super::script::{Order, Script, ScriptedCall, Turn, When, round_number};
use super::{Model, failure};
use async_trait::async_trait;
use opcell_engine::ports::{Failure, ModelReply, ModelRound, TextSink};
use opcell_types::files::{Folder, Readers};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::Mutex;

/// Passes rounds on to a model and writes each with its answer to a file that [`super::ScriptedModel`] reads. Turns are
/// bound to step, visit, round and last message, so that a replay neither depends on the order of parallel steps nor
/// accepts another conversation.
pub struct Recorder {
    model: Arc<dyn Model>,
    path: PathBuf,
    script: Mutex<Script>,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Recorder {
    /// Starts a new file. Blocks.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn create(model: Arc<dyn Model>, path: &Path) -> std::io::Result<Self> {
        let script = Script { version: 1, order: Order::Any, turns: Vec::new() };
        write(path, &script)?;
        Ok(Self { model, path: path.to_owned(), script: Mutex::new(script) })
    }
}

#[async_trait]
impl Model for Recorder {
    async fn complete(&self, round: &ModelRound, sink: Option<&dyn TextSink>) -> Result<ModelReply, Failure> {
        let answer = self.model.complete(round, sink).await;
        let when = When {
            step: Some(round.context.step.to_string()),
            visit: Some(round.context.visit),
            round: Some(round_number(round)),
            last: round.messages.last().map(|message| message.content.clone()),
            ..When::default()
        };
        let turn = match &answer {
            Ok(reply) => Turn {
                when,
                text: Some(reply.message.content.clone()),
                tool_calls: reply
                    .message
                    .tool_calls
                    .iter()
                    .map(|call| ScriptedCall {
                        name: call.name.clone(),
                        arguments: call.arguments.clone(),
                        id: Some(call.id.clone()),
                    })
                    .collect(),
                usage: reply.usage,
                ..Turn::default()
            },
            Err(failed) if failed.reason.as_ref() == "cancelled" => return answer,
            Err(failed) => Turn { when, fail: Some(failed.clone()), ..Turn::default() },
        };
        let mut script = self.script.lock().await;
        script.turns.push(turn);
        let (path, snapshot) = (self.path.clone(), script.clone());
        let written = tokio::task::spawn_blocking(move || write(&path, &snapshot)).await;
        match written {
            Ok(Ok(())) => answer,
            Ok(Err(error)) => {
                Err(failure("recording-failed", format!("cannot write {}: {error}", self.path.display())))
            }
            Err(error) => Err(failure("recording-failed", error.to_string())),
        }
    }
}

/// Replaces the file at once, so that a crash leaves the rounds before it.
fn write(path: &Path, script: &Script) -> std::io::Result<()> {
    let mut text = serde_json::to_string_pretty(script)?;
    text.push('\n');
    let (folder, name) = (path.parent().unwrap_or(Path::new("")), path.file_name().unwrap_or_default());
    Folder::open(folder)?.replace(name, text.as_bytes(), Readers::of(path))
}
