//! A ranked search over tools: BM25 over their names, titles, descriptions and arguments.

use rmcp::model::Tool;
use serde_json::Value as Json;
use std::collections::HashMap;

/// The count of a word beyond which further occurrences add little, and the share of a text's length in the score.
const SATURATION: f64 = 1.2;
const LENGTH_SHARE: f64 = 0.75;

/// The weight of a word in a tool's name, in occurrences.
const NAME_WEIGHT: u32 = 3;

/// Words of one tool that are indexed, and of one query that are looked for.
const MAX_TOOL_WORDS: usize = 600;
const MAX_QUERY_WORDS: usize = 32;

/// Bytes of a word.
const MAX_WORD: usize = 40;

/// Nodes of a schema that are looked at.
const MAX_NODES: usize = 2_000;

/// Tools by their words.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// For each word, the tools that have it by their number, and how often.
    words: HashMap<String, Vec<(usize, u32)>>,
    lengths: Vec<u32>,
    total: u64,
}

impl Index {
    pub(super) fn of<'a>(tools: impl Iterator<Item = &'a Tool>) -> Self {
        let mut index = Self::default();
        for (number, tool) in tools.enumerate() {
            let mut counts: HashMap<String, u32> = HashMap::new();
            let mut length = 0_u32;
            let mut add = |text: &str, weight: u32| {
                for word in words(text) {
                    if length as usize >= MAX_TOOL_WORDS {
                        return;
                    }
                    length += weight;
                    *counts.entry(word).or_default() += weight;
                }
            };
            add(&tool.name, NAME_WEIGHT);
            add(tool.title.as_deref().unwrap_or_default(), 1);
            add(tool.description.as_deref().unwrap_or_default(), 1);
            arguments(&tool.input_schema, &mut add);
            for (word, count) in counts {
                index.words.entry(word).or_default().push((number, count));
            }
            index.lengths.push(length);
            index.total += u64::from(length);
        }
        index
    }

    /// The numbers of the best tools for a query, best first. Of equal ones, the first in the list comes first.
    pub(super) fn search(&self, query: &str, most: usize) -> Vec<usize> {
        let documents = self.lengths.len() as f64;
        let mean = (self.total as f64 / documents.max(1.0)).max(1.0);
        let mut scores: HashMap<usize, f64> = HashMap::new();
        let mut looked_for: Vec<String> = words(query).take(MAX_QUERY_WORDS).collect();
        looked_for.sort();
        looked_for.dedup();
        for word in looked_for {
            let Some(found) = self.words.get(&word) else { continue };
            let having = found.len() as f64;
            let rarity = (1.0 + (documents - having + 0.5) / (having + 0.5)).ln();
            for (number, count) in found {
                let length = f64::from(self.lengths.get(*number).copied().unwrap_or_default());
                let count = f64::from(*count);
                let norm = SATURATION * (1.0 - LENGTH_SHARE + LENGTH_SHARE * length / mean);
                *scores.entry(*number).or_default() += rarity * count * (SATURATION + 1.0) / (count + norm);
            }
        }
        let mut ranked: Vec<(usize, f64)> = scores.into_iter().collect();
        ranked.sort_by(|(a, first), (b, second)| second.total_cmp(first).then(a.cmp(b)));
        ranked.into_iter().take(most).map(|(number, _)| number).collect()
    }
}

/// The names and descriptions of a schema's properties, at any depth.
fn arguments(schema: &rmcp::model::JsonObject, add: &mut impl FnMut(&str, u32)) {
    let mut open: Vec<&Json> = schema.values().collect();
    if let Some(properties) = schema.get("properties").and_then(Json::as_object) {
        properties.keys().for_each(|name| add(name, 1));
    }
    let mut looked_at = 0;
    while let Some(node) = open.pop() {
        looked_at += 1;
        if looked_at > MAX_NODES {
            return;
        }
        match node {
            Json::Array(items) => open.extend(items),
            Json::Object(entries) => {
                if let Some(text) = entries.get("description").and_then(Json::as_str) {
                    add(text, 1);
                }
                if let Some(properties) = entries.get("properties").and_then(Json::as_object) {
                    properties.keys().for_each(|name| add(name, 1));
                }
                open.extend(entries.values());
            }
            _ => {}
        }
    }
}

/// The words of a text: in small letters, those of `createIssue` and `create_issue` alike, without the `s` of a plural.
fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    let mut rest = text.char_indices().peekable();
    std::iter::from_fn(move || {
        let mut word = String::new();
        let mut was_small = false;
        while let Some((_, c)) = rest.peek().copied() {
            let ends = !c.is_alphanumeric() || (was_small && c.is_uppercase());
            if ends && !word.is_empty() {
                break;
            }
            rest.next();
            if c.is_alphanumeric() && word.len() < MAX_WORD {
                was_small = c.is_lowercase();
                word.extend(c.to_lowercase());
            }
        }
        let is_plural = word.len() > 3 && word.ends_with('s') && !word.ends_with("ss");
        if is_plural {
            word.pop();
        }
        (!word.is_empty()).then_some(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::sync::Arc;

    fn tool(name: &str, description: &str, arguments: &[&str]) -> Tool {
        let properties: serde_json::Map<String, Json> =
            arguments.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect();
        let Json::Object(schema) = json!({"type": "object", "properties": properties}) else { unreachable!() };
        Tool::new(name.to_owned(), description.to_owned(), Arc::new(schema))
    }

    #[test]
    fn the_best_tool_comes_first_whatever_its_words_are_written_like() {
        let tools = [
            tool("tracker__createIssue", "Opens an entry", &["title", "body"]),
            tool("tracker__list_issues", "Lists the issues of a repository", &["repository"]),
            tool("mail__send", "Sends a message about an issue", &["to"]),
            tool("files__read", "Reads a file", &["path"]),
        ];
        let index = Index::of(tools.iter());
        let first = |query: &str| index.search(query, 10).first().map(|number| tools[*number].name.to_string());
        assert_eq!(first("create an issue").as_deref(), Some("tracker__createIssue"));
        assert_eq!(first("LIST issues").as_deref(), Some("tracker__list_issues"));
        assert_eq!(first("send mail").as_deref(), Some("mail__send"));
        assert_eq!(first("path").as_deref(), Some("files__read"), "an argument's name");
        assert_eq!(first("weather"), None);
        assert_eq!(first(""), None);
        assert_eq!(index.search("issue", 2).len(), 2);
    }

    #[test]
    fn a_tool_of_a_million_words_and_a_query_of_as_many_cost_little() {
        let long = "word ".repeat(1_000_000);
        let index = Index::of([tool("t", &long, &[]), tool("u", "word", &[])].iter());
        assert!(index.total <= 2 * MAX_TOOL_WORDS as u64, "{}", index.total);
        assert_eq!(index.search(&format!("{long} other"), 10).len(), 2);
    }
}
