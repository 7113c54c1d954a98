//! Rules that say which calls of tools wait for a person.

use crate::expr::Expression;
use opcell_types::{Effects, Value};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};
use std::{fmt, sync::Arc};

/// Rules for calls of tools. All that apply count, and the strictest decides: a call waits for a person as soon as one
/// of them asks.
///
/// Written as one word, as one table, or as a list of these.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(transparent)]
pub struct ApprovalRules(Vec<ApprovalRule>);

/// One rule.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ApprovalRule {
    /// The calls that ask, where nothing below says otherwise.
    pub ask: Ask,
    /// Names of the tools that it is for; `*` stands for any characters. Absent: every tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Only calls whose arguments match ask. What cannot be told apart from a match is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<ArgumentMatch>,
    /// Calls whose arguments are covered do not ask. What is not certainly covered is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unless: Option<ArgumentMatch>,
    /// Seconds that a person has for an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within_seconds: Option<u64>,
    /// The consequence of no answer in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub then: Option<Then>,
    /// Different people who must approve a call; 1 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub people: Option<u32>,
    /// The place of the rule, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Arc<str>>,
}

/// The calls that ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ask {
    /// None of them.
    Never,
    /// Those of tools that change something.
    UnlessPure,
    /// All of them.
    #[default]
    Always,
}

/// The consequence of no answer in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Then {
    /// The call is refused, and the model is told so.
    #[default]
    Refuse,
    /// The step fails.
    Fail,
}

/// A description of arguments.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ArgumentMatch {
    /// The argument that holds the path, the command or the host: a name, or a JSON Pointer. Absent: `path`, `command`
    /// and `url`; with `when`, every text among the arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argument: Option<String>,
    /// Patterns of paths: `*` within a part, `**` over parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paths: Option<Vec<String>>,
    /// Commands by their words, such as `git push`; with `unless`, a last word `*` stands for any further words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commands: Option<Vec<String>>,
    /// Hosts; `*.example.com` is every host below that domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<String>>,
    /// A JSON Schema of the arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// An expression over the arguments, which are its `$inputs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expression: Option<Expression>,
}

impl Ask {
    /// As written everywhere.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::UnlessPure => "unless-pure",
            Self::Always => "always",
        }
    }

    /// Returns `true` if a call with these effects asks.
    #[must_use]
    pub fn applies_to(self, effects: Effects) -> bool {
        match self {
            Self::Never => false,
            Self::UnlessPure => effects != Effects::Pure,
            Self::Always => true,
        }
    }
}

impl ApprovalRule {
    /// The rule that is one word.
    #[must_use]
    pub fn of(ask: Ask) -> Self {
        Self { ask, ..Self::default() }
    }

    /// Returns `true` if the rule is for a tool of one of these names.
    #[must_use]
    pub fn is_for(&self, names: &[&str]) -> bool {
        let Some(tools) = &self.tools else { return true };
        tools.iter().any(|pattern| names.iter().any(|name| matches_word(pattern, name)))
    }

    /// The first thing that is wrong with it.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        if self.ask == Ask::Never && (self.when.is_some() || self.unless.is_some()) {
            return Some("`ask = \"never\"` asks about no call, so `when` and `unless` mean nothing".to_owned());
        }
        if self.people == Some(0) || self.people.is_some_and(|people| people > 2) {
            return Some("`people` is 1 or 2".to_owned());
        }
        if self.within_seconds == Some(0) {
            return Some("`within-seconds` is at least 1".to_owned());
        }
        if self.then.is_some() && self.within_seconds.is_none() {
            return Some("`then` says what follows after `within-seconds`, which is missing".to_owned());
        }
        let parts = [("when", &self.when), ("unless", &self.unless)];
        parts
            .into_iter()
            .find_map(|(name, part)| part.as_ref()?.problem().map(|problem| format!("`{name}`: {problem}")))
    }

    /// The rule in a few words, for people.
    #[must_use]
    pub fn describe(&self) -> String {
        let mut text = self.ask.as_str().to_owned();
        for (word, part) in [("when", &self.when), ("unless", &self.unless)] {
            if let Some(part) = part {
                text.push_str(&format!(" {word} {}", part.describe()));
            }
        }
        if let Some(people) = self.people.filter(|people| *people > 1) {
            text.push_str(&format!(", {people} people"));
        }
        if let Some(seconds) = self.within_seconds {
            let then = if self.then.unwrap_or_default() == Then::Fail { "fail" } else { "refuse" };
            text.push_str(&format!(", within {seconds} s, then {then}"));
        }
        if let Some(from) = &self.from {
            text.push_str(&format!(" ({from})"));
        }
        text
    }
}

impl ArgumentMatch {
    fn problem(&self) -> Option<String> {
        let Self { argument: _, paths, commands, hosts, schema, expression } = self;
        if let Some(expression) = expression
            && let Some(problem) = expression.syntax_error()
        {
            return Some(format!("the expression `{}` cannot be used: {problem}", expression.text()));
        }
        let lists = [("paths", paths), ("commands", commands), ("hosts", hosts)];
        let empty = |list: &Vec<String>| list.is_empty() || list.iter().any(|pattern| pattern.trim().is_empty());
        if let Some((name, _)) = lists.iter().find(|(_, list)| list.as_ref().is_some_and(empty)) {
            return Some(format!("`{name}` needs patterns, none of them empty"));
        }
        let says_nothing = lists.iter().all(|(_, list)| list.is_none()) && schema.is_none() && expression.is_none();
        says_nothing.then(|| "it needs `paths`, `commands`, `hosts`, `schema` or `expression`".to_owned())
    }

    fn describe(&self) -> String {
        let mut parts = Vec::new();
        for (name, list) in [("paths", &self.paths), ("commands", &self.commands), ("hosts", &self.hosts)] {
            if let Some(list) = list {
                let quoted: Vec<String> = list.iter().map(|pattern| format!("`{pattern}`")).collect();
                parts.push(format!("{name} {}", quoted.join(", ")));
            }
        }
        if self.schema.is_some() {
            parts.push("the schema holds".to_owned());
        }
        if let Some(expression) = &self.expression {
            parts.push(format!("`{}`", expression.text()));
        }
        parts.join(" and ")
    }
}

impl ApprovalRules {
    /// The rules, in the order in which they were written.
    #[must_use]
    pub fn rules(&self) -> &[ApprovalRule] {
        &self.0
    }

    /// Returns `true` if there is no rule.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the rules of another place.
    pub fn add(&mut self, others: &Self) {
        for rule in &others.0 {
            if !self.0.contains(rule) {
                self.0.push(rule.clone());
            }
        }
    }

    /// The same rules, written in this place unless they say where.
    #[must_use]
    pub fn written_in(&self, place: &str) -> Self {
        let named = |rule: &ApprovalRule| ApprovalRule {
            from: rule.from.clone().or_else(|| Some(place.into())),
            ..rule.clone()
        };
        Self(self.0.iter().map(named).collect())
    }

    /// The schemas of arguments in them, which are for whoever compiles schemas to check.
    pub fn schemas(&self) -> impl Iterator<Item = &Value> {
        let parts = self.0.iter().flat_map(|rule| [rule.when.as_ref(), rule.unless.as_ref()]);
        parts.flatten().filter_map(|part| part.schema.as_ref())
    }

    /// The first thing that is wrong with one of them, their schemas aside.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        self.0.iter().find_map(ApprovalRule::problem)
    }
}

impl From<Vec<ApprovalRule>> for ApprovalRules {
    fn from(rules: Vec<ApprovalRule>) -> Self {
        Self(rules)
    }
}

/// Compares a word with a pattern in which `*` stands for any characters and `?` for one. Neither recursion nor
/// backtracking beyond the last `*`.
#[must_use]
pub fn matches_word(pattern: &str, word: &str) -> bool {
    let (pattern, word): (Vec<char>, Vec<char>) = (pattern.chars().collect(), word.chars().collect());
    let (mut at, mut from) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while from < word.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(c) if *c == '?' || word.get(from) == Some(c) => {
                at += 1;
                from += 1;
            }
            _ => match star {
                Some((place, taken)) => {
                    (at, from) = (place + 1, taken + 1);
                    star = Some((place, taken + 1));
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(at).all(|c| *c == '*')
}

impl<'de> Deserialize<'de> for ApprovalRules {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RulesVisitor)
    }
}

struct RulesVisitor;

impl<'de> Visitor<'de> for RulesVisitor {
    type Value = ApprovalRules;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"never\", \"unless-pure\", \"always\", a rule such as { when = { commands = [\"git push\"] } }, or a list of these")
    }

    fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<ApprovalRules, E> {
        one_word(word).map(|rule| ApprovalRules(vec![rule]))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ApprovalRules, A::Error> {
        ApprovalRule::deserialize(MapAccessDeserializer::new(map)).map(|rule| ApprovalRules(vec![rule]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<ApprovalRules, A::Error> {
        let mut rules = Vec::new();
        while let Some(OneRule(rule)) = items.next_element()? {
            rules.push(rule);
        }
        Ok(ApprovalRules(rules))
    }
}

/// A rule in a list.
struct OneRule(ApprovalRule);

impl<'de> Deserialize<'de> for OneRule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneRuleVisitor)
    }
}

struct OneRuleVisitor;

impl<'de> Visitor<'de> for OneRuleVisitor {
    type Value = OneRule;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "\"never\", \"unless-pure\", \"always\", or a rule such as { when = { commands = [\"git push\"] } }",
        )
    }

    fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<OneRule, E> {
        one_word(word).map(OneRule)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<OneRule, A::Error> {
        ApprovalRule::deserialize(MapAccessDeserializer::new(map)).map(OneRule)
    }
}

fn one_word<E: serde::de::Error>(word: &str) -> Result<ApprovalRule, E> {
    let ask = match word {
        "never" => Ask::Never,
        "unless-pure" => Ask::UnlessPure,
        "always" => Ask::Always,
        _ => return Err(E::unknown_variant(word, &["never", "unless-pure", "always"])),
    };
    Ok(ApprovalRule::of(ask))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(json: &str) -> Result<ApprovalRules, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn rules_are_a_word_a_table_or_a_list_of_these() {
        let always = ApprovalRule::of(Ask::Always);
        assert_eq!(rules(r#""always""#).unwrap().rules(), std::slice::from_ref(&always));
        assert_eq!(rules("{}").unwrap().rules(), std::slice::from_ref(&always));
        let both = rules(r#"["unless-pure", {"when": {"commands": ["rm"]}, "people": 2}]"#).unwrap();
        assert_eq!(both.rules().len(), 2);
        assert_eq!(rules(&serde_json::to_string(&both).unwrap()).unwrap(), both);
        assert!(rules(r#""sometimes""#).unwrap_err().contains("unless-pure"));
        assert!(rules(r#"{"wenn": {}}"#).unwrap_err().contains("wenn"));
        assert!(rules("1").is_err());
    }

    #[test]
    fn a_rule_that_cannot_be_used_says_why() {
        let problem = |json: &str| rules(json).unwrap().problem().unwrap_or_default();
        assert!(problem(r#"{"when": {}}"#).contains("needs `paths`"));
        assert!(problem(r#"{"when": {"commands": []}}"#).contains("`commands` needs patterns"));
        assert!(problem(r#"{"unless": {"expression": "$inputs."}}"#).contains("expression"));
        assert!(problem(r#"{"ask": "never", "when": {"hosts": ["a"]}}"#).contains("never"));
        assert!(problem(r#"{"people": 3}"#).contains("people"));
        assert!(problem(r#"{"then": "fail"}"#).contains("within-seconds"));
        assert_eq!(problem(r#"{"unless": {"commands": ["cargo test"]}, "within-seconds": 60, "then": "fail"}"#), "");
    }

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, word, fits) in [
            ("a*c", "abbc", true),
            ("a*c", "abb", false),
            ("*", "", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*a*b", "xaxab", true),
            ("a", "A", false),
        ] {
            assert_eq!(matches_word(pattern, word), fits, "{pattern} {word}");
        }
    }
}
