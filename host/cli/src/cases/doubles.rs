//! The host of a case: its tools and skills are doubles, and a call that none of them answers is remembered.

use super::case::{Case, ToolDouble};
use async_trait::async_trait;
use opcell::stores::PluginStores;
use opcell_sandbox::{
    host::{HostServices, SkillDescription},
    store::Stores,
};
use opcell_types::{CallContext, Failure, ToolDescription, TouchLog};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// The longest that a slow double waits: cases test patience, not endurance.
const MAX_DELAY: Duration = Duration::from_secs(60);

/// Stands in for the host.
pub(super) struct Doubles {
    tools: Vec<(ToolDouble, Option<opcell_schema::Schema>)>,
    skills: BTreeMap<String, super::case::SkillDouble>,
    /// Empty at first: every case has its own.
    stores: PluginStores,
    unanswered: Mutex<Vec<String>>,
}

impl Doubles {
    pub(super) fn of(case: &Case) -> Result<Self, String> {
        let tools = case.tools.iter().map(|double| {
            let schema = double.matching.as_ref().map(|schema| {
                opcell_schema::Schema::compile(schema)
                    .map_err(|error| format!("the double of tool `{}`: its `matching`: {error}", double.name))
            });
            Ok((double.clone(), schema.transpose()?))
        });
        Ok(Self {
            tools: tools.collect::<Result<_, String>>()?,
            skills: case.skills.clone(),
            stores: PluginStores::in_memory(),
            unanswered: Mutex::default(),
        })
    }

    /// The stores of the plugin, as its calls use them.
    pub(super) fn stores_of(&self, context: &CallContext) -> Box<dyn Stores> {
        self.stores.of("plugin", context)
    }

    /// Calls that no double answered, each as the double to add.
    pub(super) fn unanswered(&self) -> Vec<String> {
        self.unanswered.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn missing(&self, double: String) {
        self.unanswered.lock().unwrap_or_else(PoisonError::into_inner).push(double);
    }
}

#[async_trait]
impl HostServices for Doubles {
    fn stores(&self, context: &CallContext) -> Option<Box<dyn Stores>> {
        Some(self.stores.of("plugin", context))
    }

    fn tools(&self) -> Vec<ToolDescription> {
        let mut names: Vec<&str> = self.tools.iter().map(|(double, _)| double.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter().map(|name| ToolDescription::new(name, "A double.", json!({"type": "object"}))).collect()
    }

    async fn call_tool(
        &self,
        name: &str,
        arguments: &str,
        _context: &CallContext,
        _touched: &TouchLog,
    ) -> Result<String, Failure> {
        let given: Value =
            serde_json::from_str(arguments).map_err(|error| Failure::host("invalid-arguments", error.to_string()))?;
        let fits = |(double, schema): &&(ToolDouble, Option<opcell_schema::Schema>)| {
            double.name == name
                && double.arguments.as_ref().is_none_or(|arguments| *arguments == given)
                && double.like.as_ref().is_none_or(|pattern| is_like(pattern, &given))
                && schema.as_ref().is_none_or(|schema| schema.check(&given).is_ok())
        };
        let Some((double, _)) = self.tools.iter().find(fits) else {
            // What the host's own tool answers with.
            let returns = match name {
                "http.fetch" => json!({
                    "status": 200, "url": given.get("url").unwrap_or(&Value::Null), "headers": {}, "body": "",
                }),
                _ => json!({}),
            };
            self.missing(format!("tools:\n  - name: {name}\n    arguments: {given}\n    returns: {returns}"));
            return Err(Failure::host(
                "no-double",
                format!("no double of the case answers this call of tool `{name}`"),
            ));
        };
        if double.delay_ms > 0 {
            tokio::time::sleep(Duration::from_millis(double.delay_ms).min(MAX_DELAY)).await;
        }
        match (&double.returns, &double.fails) {
            (Some(value), _) => Ok(value.to_string()),
            (None, Some(double)) => {
                let failure = Failure::host(double.reason.as_str(), double.message.clone());
                Err(match &double.details {
                    Some(details) => failure.with_details(details.clone()),
                    None => failure,
                })
            }
            // The sandbox denies it before it comes here: the case grants no such tool.
            (None, None) => Err(Failure::host("denied", "the case denies this tool")),
        }
    }

    fn skills(&self) -> Vec<SkillDescription> {
        let described = |(name, skill): (&String, &super::case::SkillDouble)| SkillDescription {
            name: name.clone(),
            description: skill.description.clone(),
        };
        self.skills.iter().map(described).collect()
    }

    async fn read_skill(&self, name: &str, _context: &CallContext) -> Result<String, Failure> {
        let found = self.skills.get(name).map(|skill| skill.body.clone());
        found.ok_or_else(|| {
            self.missing(format!("skills:\n  {name}:\n    body: {}", json!("")));
            Failure::host("not-found", format!("the case has no skill `{name}`"))
        })
    }

    async fn read_skill_resource(&self, name: &str, path: &str, _context: &CallContext) -> Result<Vec<u8>, Failure> {
        let found = self.skills.get(name).and_then(|skill| skill.resources.get(path));
        found.map(|text| text.clone().into_bytes()).ok_or_else(|| {
            self.missing(format!("skills:\n  {name}:\n    resources:\n      {path}: {}", json!("")));
            Failure::host("not-found", format!("skill `{name}` of the case has no file `{path}`"))
        })
    }
}

/// Returns `true` if a value fits a pattern: members that the pattern names must fit, lists fit element by element, and
/// `*` in a text of the pattern matches any characters.
fn is_like(pattern: &Value, value: &Value) -> bool {
    let mut pending = vec![(pattern, value)];
    while let Some((pattern, value)) = pending.pop() {
        match (pattern, value) {
            (Value::Object(pattern), Value::Object(value)) => {
                for (name, part) in pattern {
                    let Some(found) = value.get(name) else { return false };
                    pending.push((part, found));
                }
            }
            (Value::Array(pattern), Value::Array(value)) if pattern.len() == value.len() => {
                pending.extend(pattern.iter().zip(value));
            }
            (Value::String(pattern), Value::String(value)) if fits(pattern, value) => {}
            (pattern, value) if pattern == value => {}
            _ => return false,
        }
    }
    true
}

/// Returns `true` if a text fits a pattern in which `*` matches any characters.
fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    // The earliest place for each part leaves the most room for the others.
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_fits_what_it_names_and_leaves_the_rest_open() {
        let given = json!({"url": "https://api.example/v1/users", "method": "GET", "tags": ["a", "b"], "n": 1});
        for (pattern, expected) in [
            (json!({}), true),
            (json!({"url": "https://api.example/*"}), true),
            (json!({"url": "*example*users"}), true),
            (json!({"url": "*/users/*"}), false),
            (json!({"url": "https://api.example"}), false),
            (json!({"tags": ["*", "b"]}), true),
            (json!({"tags": ["a"]}), false),
            (json!({"n": 2}), false),
            (json!({"missing": "*"}), false),
        ] {
            assert_eq!(is_like(&pattern, &given), expected, "{pattern}");
        }
        assert!(fits("a*a", "aa") && !fits("a*a", "a"));
    }
}
