//! Messages that stay whatever is left out.

use opcell_engine::conversation::{Message, Role};
use opcell_ir::ir::Pin;

/// The pinned messages of a conversation, and what has to stay with them.
pub(super) struct Pinned {
    /// Messages that are sent as they are.
    whole: Vec<bool>,
    /// Messages that are sent in some form: those, and the calls and results of their rounds, which belong together.
    kept: Vec<bool>,
}

impl Pinned {
    /// Reads a conversation. A result pins itself only by its tool: its text is not the user's.
    pub(super) fn of(all: &[&Message], pin: &Pin) -> Self {
        if pin.is_empty() {
            return Self { whole: Vec::new(), kept: Vec::new() };
        }
        let mut whole = vec![false; all.len()];
        let mut kept = vec![false; all.len()];
        let mut answer: Option<(usize, &Message)> = None;
        // The messages since the last answer: a round, once one of them is pinned.
        for (at, message) in all.iter().enumerate() {
            let is_pinned = match message.role {
                Role::Tool => answer.is_some_and(|(_, answer)| {
                    let of_call = |call: &&opcell_engine::conversation::ToolCallRequest| {
                        message.tool_call_id.as_deref() == Some(call.id.as_str())
                    };
                    let call = answer.tool_calls.iter().find(of_call);
                    call.is_some_and(|call| pin.tools.contains(&call.name))
                }),
                Role::User | Role::Assistant => {
                    pin.containing.iter().any(|text| message.content.contains(text.as_str()))
                }
            };
            match message.role {
                Role::Assistant => answer = Some((at, message)),
                Role::User => answer = None,
                Role::Tool => {}
            }
            if let Some(whole) = whole.get_mut(at) {
                *whole = is_pinned;
            }
            let begin = answer.map_or(at, |(begin, _)| begin);
            let is_pinned = is_pinned || message.role == Role::Tool && kept.get(begin) == Some(&true);
            if is_pinned && let Some(round) = kept.get_mut(begin..=at) {
                round.fill(true);
            }
        }
        Self { whole, kept }
    }

    /// Returns `true` if a message is sent as it is.
    pub(super) fn is_whole(&self, at: usize) -> bool {
        self.whole.get(at) == Some(&true)
    }

    /// Returns `true` if a message is not left out.
    pub(super) fn is_pinned(&self, at: usize) -> bool {
        self.kept.get(at) == Some(&true)
    }
}
