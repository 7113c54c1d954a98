//! Maps whose keys are known, and the typed values in them.

use super::report::{Place, Report};
use crate::edn::Node;
use opcell_ir::{
    diagnostic::{Diagnostic, did_you_mean},
    source::Span,
};
use std::sync::Arc;

/// A map that is being compiled. It remembers which keys were asked for: those are the keys that mean something here.
pub(super) struct Fields<'a> {
    pub(super) span: Span,
    entries: &'a [(Node, Node)],
    known: Vec<&'static str>,
    /// Keys that people write in place of a known one, with advice.
    mistaken: Vec<(&'static str, &'static str)>,
}

impl<'a> Fields<'a> {
    pub(super) fn of(node: &'a Node) -> Option<Self> {
        Some(Self { span: node.span, entries: node.as_map()?, known: Vec::new(), mistaken: Vec::new() })
    }

    /// The value of a key, `nil` included.
    pub(super) fn raw(&mut self, key: &'static str) -> Option<&'a Node> {
        self.known.push(key);
        self.entries.iter().find(|(k, _)| k.as_keyword() == Some(key)).map(|(_, value)| value)
    }

    /// The value of a key; `nil` is not a value.
    pub(super) fn get(&mut self, key: &'static str) -> Option<&'a Node> {
        self.raw(key).filter(|value| !value.is_nil())
    }

    /// Accepts keys that psi knows and that change nothing.
    pub(super) fn know(&mut self, keys: &[&'static str]) {
        self.known.extend(keys);
    }

    /// Advises on keys that people write in place of a known one: the nearest spelling may be another one.
    pub(super) fn advise(&mut self, keys: &[&'static str], advice: &'static str) {
        self.mistaken.extend(keys.iter().map(|key| (*key, advice)));
    }

    /// Warns about every key that nothing asked for: psi drops them, Opcell says so.
    pub(super) fn finish(self, report: &mut Report, place: &Place, what: &str) {
        for (key, _) in self.entries {
            let Some(name) = key.as_keyword() else {
                let message = format!("{key} is not a keyword, so it has no effect in {what}");
                report.warn("unknown-key", key.span, place, message);
                continue;
            };
            if self.known.contains(&name) {
                continue;
            }
            let warning =
                Diagnostic::warning("unknown-key", format!("Unknown key :{name} in {what}; it has no effect"));
            let warning = warning.at(key.span).path(place.key(name).ir());
            if let Some((_, advice)) = self.mistaken.iter().find(|(key, _)| *key == name) {
                report.push(warning.help(*advice));
                continue;
            }
            report.push(match did_you_mean(name, self.known.iter().copied()) {
                Some(near) => warning.help(format!("did you mean :{near}?")),
                None => warning,
            });
        }
    }
}

pub(super) fn string(node: &Node, place: &Place, report: &mut Report) -> Option<Arc<str>> {
    report.stands(place, node.span);
    let text = node.as_str().cloned();
    if text.is_none() {
        report.invalid(node.span, place, format!("expected a string, found {}", node.noun()));
    }
    text
}

pub(super) fn boolean(node: &Node, place: &Place, report: &mut Report) -> Option<bool> {
    report.stands(place, node.span);
    let value = node.as_bool();
    if value.is_none() {
        report.invalid(node.span, place, format!("expected true or false, found {}", node.noun()));
    }
    value
}

/// A keyword's text.
pub(super) fn keyword(node: &Node, place: &Place, report: &mut Report) -> Option<Arc<str>> {
    report.stands(place, node.span);
    let name = node.as_keyword().map(Arc::from);
    if name.is_none() {
        report.invalid(node.span, place, format!("expected a keyword, found {}", node.noun()));
    }
    name
}

/// An integer from 1.
pub(super) fn positive(node: &Node, place: &Place, report: &mut Report) -> Option<u64> {
    report.stands(place, node.span);
    let value = node.as_integer().and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0);
    if value.is_none() {
        report.invalid(node.span, place, format!("expected an integer from 1, found {node}"));
    }
    value
}

/// One of several keywords.
pub(super) fn choice<T: Copy>(
    node: &Node,
    choices: &[(&'static str, T)],
    place: &Place,
    report: &mut Report,
) -> Option<T> {
    report.stands(place, node.span);
    let found = node.as_keyword().and_then(|word| choices.iter().find(|(name, _)| *name == word));
    if found.is_none() {
        let names: Vec<String> = choices.iter().map(|(name, _)| format!(":{name}")).collect();
        let near = node.as_keyword().and_then(|word| did_you_mean(word, choices.iter().map(|(name, _)| *name)));
        let near = near.map(|near| format!("; did you mean :{near}?")).unwrap_or_default();
        report.invalid(node.span, place, format!("expected one of {}, found {node}{near}", names.join(" ")));
    }
    found.map(|(_, value)| *value)
}

/// The items of a vector.
pub(super) fn vector<'a>(node: &'a Node, what: &str, place: &Place, report: &mut Report) -> Option<&'a [Node]> {
    report.stands(place, node.span);
    let items = node.as_vector();
    if items.is_none() {
        report.invalid(node.span, place, format!("expected a vector of {what}, found {}", node.noun()));
    }
    items
}

/// A vector of strings.
pub(super) fn strings(node: &Node, place: &Place, report: &mut Report) -> Option<Vec<String>> {
    let items = vector(node, "strings", place, report)?;
    let strings: Vec<Option<Arc<str>>> =
        items.iter().enumerate().map(|(i, item)| string(item, &place.index(i), report)).collect();
    strings.into_iter().map(|text| text.map(|text| text.as_ref().to_owned())).collect()
}

/// A map, and the means to read it.
pub(super) fn map<'a>(node: &'a Node, what: &str, place: &Place, report: &mut Report) -> Option<Fields<'a>> {
    report.stands(place, node.span);
    let fields = Fields::of(node);
    if fields.is_none() {
        report.invalid(node.span, place, format!("expected {what}, found {}", node.noun()));
    }
    fields
}
