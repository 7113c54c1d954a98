//! Doc comments of WIT that a component carries in its custom section `package-docs`, as the tools of WIT write it: a
//! byte for the version, then JSON.

use serde::Deserialize;
use std::collections::HashMap;
use wasmparser::{Parser, Payload};

/// The custom section, defined by `wit-parser`.
const SECTION: &str = "package-docs";

/// Bytes of a section that is read; a larger one is left alone.
const MAX_SECTION: usize = 1 << 20;

/// Characters of a summary.
const MAX_SUMMARY: usize = 300;

/// The doc comments of functions, by interface.
#[derive(Debug, Default)]
pub(crate) struct Docs {
    /// By the short name of an interface and the function's.
    interfaces: HashMap<String, HashMap<String, String>>,
    /// Comments on functions that a world itself exports.
    world: HashMap<String, String>,
}

#[derive(Deserialize)]
struct Package {
    #[serde(default)]
    worlds: HashMap<String, World>,
    #[serde(default)]
    interfaces: HashMap<String, Interface>,
}

#[derive(Deserialize)]
struct World {
    #[serde(default)]
    interfaces: HashMap<String, Interface>,
    #[serde(default)]
    funcs: HashMap<String, Function>,
}

#[derive(Deserialize)]
struct Interface {
    #[serde(default)]
    funcs: HashMap<String, Function>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Function {
    Docs(Option<String>),
    Stability {
        #[serde(default)]
        docs: Option<String>,
    },
}

impl Docs {
    /// Reads what a component says. A section that cannot be read says nothing: it changes no call.
    pub(crate) fn of(component: &[u8]) -> Self {
        let mut docs = Self::default();
        let mut depth = 0_usize;
        for payload in Parser::new(0).parse_all(component).map_while(Result::ok) {
            match payload {
                Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
                Payload::End(_) => depth = depth.saturating_sub(1),
                Payload::CustomSection(section) if depth == 0 && section.name() == SECTION => docs.add(section.data()),
                _ => {}
            }
        }
        docs
    }

    fn add(&mut self, section: &[u8]) {
        let Some((0 | 1, json)) = section.split_first().filter(|_| section.len() <= MAX_SECTION) else { return };
        let Ok(package) = serde_json::from_slice::<Package>(json) else { return };
        let mut interfaces = package.interfaces;
        for world in package.worlds.into_values() {
            interfaces.extend(world.interfaces);
            self.world.extend(summaries(world.funcs));
        }
        for (name, interface) in interfaces {
            self.interfaces.entry(name).or_default().extend(summaries(interface.funcs));
        }
    }

    /// Returns the summary of a function; `interface` is the short name of its interface.
    pub(super) fn of_function(&self, interface: Option<&str>, name: &str) -> Option<&str> {
        let functions = match interface {
            Some(interface) => self.interfaces.get(interface)?,
            None => &self.world,
        };
        functions.get(name).map(String::as_str)
    }
}

/// The first paragraph of each comment on one line.
fn summaries(functions: HashMap<String, Function>) -> impl Iterator<Item = (String, String)> {
    functions.into_iter().filter_map(|(name, function)| {
        let (Function::Docs(docs) | Function::Stability { docs }) = function;
        let docs = docs?;
        let paragraph: Vec<&str> = docs.trim().lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
        let summary = opcell_types::text::one_line(&paragraph.join(" "), MAX_SUMMARY);
        (!summary.is_empty()).then_some((name, summary))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn component(json: &str) -> Vec<u8> {
        let mut bytes = b"\0asm\x0d\0\x01\0".to_vec();
        let name = SECTION.len() as u8;
        let length = 1 + SECTION.len() + 1 + json.len();
        // Two bytes of LEB128, which every length of this test needs.
        bytes.extend([0, (length & 0x7f) as u8 | 0x80, (length >> 7) as u8, name]);
        bytes.extend(SECTION.bytes().chain([0]).chain(json.bytes()));
        bytes
    }

    #[test]
    fn the_first_paragraph_of_a_doc_comment_is_the_summary() {
        let docs = Docs::of(&component(
            r#"{"interfaces":{"pages":{"docs":"Pages.","funcs":{"fetch":"Fetches a page\nover HTTP.\n\nMore.","old":{"docs":"Old.","stability":{}}}}},
               "worlds":{"web":{"funcs":{"run":"Runs."},"interfaces":{"inner":{"funcs":{"go":"Goes."}}}}}}"#,
        ));
        assert_eq!(docs.of_function(Some("pages"), "fetch"), Some("Fetches a page over HTTP."));
        assert_eq!(docs.of_function(Some("pages"), "old"), Some("Old."));
        assert_eq!(
            (docs.of_function(None, "run"), docs.of_function(Some("inner"), "go")),
            (Some("Runs."), Some("Goes."))
        );
        assert_eq!((docs.of_function(Some("pages"), "none"), docs.of_function(None, "fetch")), (None, None));
    }

    #[test]
    fn a_section_that_is_not_one_says_nothing() {
        for json in ["[]", "{\"interfaces\":3}", "no JSON at all"] {
            let padded = format!("{json}{}", " ".repeat(200));
            assert_eq!(Docs::of(&component(&padded)).of_function(Some("pages"), "fetch"), None, "{json}");
        }
    }
}
