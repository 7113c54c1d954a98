//! `opcell prompt --cache`: the parts of a request that later ones repeat.

use crate::cli::units::{Align, columns};
use opcell::{prompts::StepPrompt, report::printable};
use opcell_session::prompt::tokens;
use serde_json::{Value as Json, json};
use std::fmt::Write as _;

/// A part of the first request, in the order in which providers read it.
struct Part {
    name: String,
    tokens: usize,
    /// Sessions of other steps and other days send it as well.
    is_shared: bool,
}

fn parts(prompt: &StepPrompt) -> Vec<Part> {
    let tool = |tool: &opcell_types::ToolDescription| {
        tokens(&tool.name) + tokens(&tool.description) + tokens(&tool.parameters.to_json())
    };
    let tools: usize = prompt.tools.iter().map(tool).sum();
    let tools = (tools > 0).then(|| Part { name: "tool descriptions".to_owned(), tokens: tools, is_shared: true });
    // A section that differs ends what sessions share.
    let shared = prompt.system.sections.iter().take_while(|section| section.component.is_stable()).count();
    let sections = prompt.system.sections.iter().enumerate().map(|(at, section)| Part {
        name: section.component.name().to_owned(),
        tokens: section.tokens,
        is_shared: at < shared,
    });
    let messages = prompt.conversation.iter().map(|message| Part {
        name: message.role.to_string(),
        tokens: message.tokens,
        is_shared: false,
    });
    tools.into_iter().chain(sections).chain(messages).collect()
}

fn sums(parts: &[Part]) -> (usize, usize) {
    let all = parts.iter().map(|part| part.tokens).sum();
    let shared = parts.iter().filter(|part| part.is_shared).map(|part| part.tokens).sum();
    (all, shared)
}

/// The price of tokens in dollars.
fn dollars(tokens: usize, per_million: f64) -> f64 {
    tokens as f64 * per_million / 1e6
}

/// The table of parts, and the totals.
pub fn text(prompt: &StepPrompt, title: String) -> String {
    let parts = parts(prompt);
    let (all, shared) = sums(&parts);
    let head = ["", "tokens", "second round", "another session"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for part in &parts {
        let other = if part.is_shared { "cached" } else { "new" };
        rows.push(vec![format!("  {}", part.name), format!("~{}", part.tokens), "cached".to_owned(), other.to_owned()]);
    }
    let mut text = title;
    for line in columns(&rows, &[Align::Left, Align::Right, Align::Left, Align::Left]) {
        let _ = writeln!(text, "{line}");
    }
    let _ = writeln!(
        text,
        "A second round repeats ~{all} tokens; a session of another step or day repeats ~{shared} of them."
    );
    let _ = match &prompt.price {
        Some(price) => writeln!(
            text,
            "{}: ${:.6} for the first round, ${:.6} for the same tokens in the second; answers and new messages are \
             added to both.{}",
            price.model,
            dollars(all, price.into_cache),
            dollars(all, price.from_cache),
            price.catalogue.as_ref().map(|day| format!(" Prices: Opcell's catalogue of {day}.")).unwrap_or_default()
        ),
        None => writeln!(text, "The project lists no prices for this model: see `input-cost` and `cache-read-cost`."),
    };
    printable(&text).into_owned()
}

/// The same as JSON.
pub fn json(prompt: &StepPrompt) -> Json {
    let parts = parts(prompt);
    let (all, shared) = sums(&parts);
    let part = |part: &Part| json!({"name": part.name, "tokens": part.tokens, "shared": part.is_shared});
    let price = prompt.price.as_ref().map(|price| {
        let mut told = json!({
            "model": price.model,
            "first-round": dollars(all, price.into_cache),
            "second-round": dollars(all, price.from_cache),
        });
        if let (Some(told), Some(day)) = (told.as_object_mut(), &price.catalogue) {
            told.insert("catalogue".to_owned(), json!(day));
        }
        told
    });
    json!({
        "step": prompt.step,
        "judge": prompt.judge,
        "parts": parts.iter().map(part).collect::<Vec<_>>(),
        "repeated-in-second-round": all,
        "repeated-in-other-sessions": shared,
        "dollars": price,
    })
}
