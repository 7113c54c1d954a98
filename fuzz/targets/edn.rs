//! The EDN reader, and the psi compiler behind it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opcell_workflow::edn::{Kind, Node, read};

fuzz_target!(|text: &str| {
    if let Ok(reading) = read(text) {
        let mut nodes: Vec<&Node> = reading.form.iter().collect();
        while let Some(node) = nodes.pop() {
            assert!(text.get(node.span.start..node.span.end).is_some(), "{:?} is not in the text", node.span);
            match &node.kind {
                Kind::List(inner) | Kind::Vector(inner) | Kind::Set(inner) => nodes.extend(inner),
                Kind::Map(entries) => nodes.extend(entries.iter().flat_map(|(key, value)| [key, value])),
                Kind::Tagged(_, inner) => nodes.push(inner),
                _ => {}
            }
        }
    }
    opcell_fuzz::document("fuzz.edn", text);
});
