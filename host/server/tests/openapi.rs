//! The committed description of the API is the one that the server serves.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it looks at")]

use opcell::{Diagnostic, report};
use opcell_engine::{
    event::EffectId,
    outcome::{Question, Used},
};
use opcell_types::{
    Access, Capability, Denial, Remedy,
    denial::{HttpScope, SessionPart},
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, fs, path::Path, sync::Arc};

#[test]
fn the_committed_description_of_the_api_is_what_the_server_serves() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas/openapi.json");
    let served = opcell_server::api::openapi_text();
    if std::env::var("SNAPSHOTS").is_ok_and(|mode| mode == "overwrite") {
        fs::write(&path, &served).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    let at = committed.lines().zip(served.lines()).position(|(committed, served)| committed != served);
    assert!(
        committed == served,
        "docs/schemas/openapi.json differs from line {:?} on; `SNAPSHOTS=overwrite cargo test -p opcell-server --test openapi` writes it",
        at.map(|at| at + 1)
    );
}

fn document() -> Value {
    serde_json::from_str(&opcell_server::api::openapi_text()).unwrap()
}

/// Every operation, with its method and path.
fn operations(document: &Value) -> Vec<(String, Value)> {
    let paths = document["paths"].as_object().unwrap();
    let of = |(path, methods): (&String, &Value)| {
        let methods = methods.as_object().unwrap().iter();
        methods.map(|(method, operation)| (format!("{method} {path}"), operation.clone())).collect::<Vec<_>>()
    };
    paths.iter().flat_map(of).collect()
}

#[test]
fn every_operation_has_an_id_of_its_own_and_every_answer_a_description() {
    let document = document();
    let mut ids = BTreeSet::new();
    for (named, operation) in operations(&document) {
        let id = operation["operationId"].as_str().unwrap_or_default();
        assert!(!id.is_empty() && ids.insert(id.to_owned()), "{named}: {id}");
        for (status, response) in operation["responses"].as_object().unwrap() {
            let said = response["description"].as_str().unwrap_or_default();
            assert!(!said.is_empty(), "{named}: {status} has no description");
        }
    }
    assert!(ids.len() > 30, "{ids:?}");
}

#[test]
fn what_a_reference_names_is_there_and_every_property_says_what_it_is() {
    let document = document();
    let (mut open, mut named) = (vec![&document], BTreeSet::new());
    while let Some(value) = open.pop() {
        match value {
            Value::Object(fields) => {
                named.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
                open.extend(fields.values());
            }
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
    for reference in &named {
        assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
    }
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for (name, schema) in schemas {
        for (property, of) in schema["properties"].as_object().into_iter().flatten() {
            let says = |of: &Value| of["description"].is_string() || of["$ref"].is_string() || of["oneOf"].is_array();
            assert!(says(of), "{name}.{property}: {of}");
        }
    }
    // What runs ask, what they were refused and what calls used has a type.
    for name in ["RunQuestion", "DeniedCapability", "CallReceipt", "RunEvent", "Finding"] {
        assert!(named.contains(&format!("#/components/schemas/{name}")), "{name}: {named:?}");
    }
}

/// The name of the schema that a property refers to.
fn named(property: &Value) -> Option<&str> {
    let reference = property["$ref"].as_str().or_else(|| property["oneOf"][0]["$ref"].as_str());
    reference.and_then(|reference| reference.rsplit('/').next()).filter(|name| *name != "Value")
}

/// Fails where an object has what its schema does not name, or lacks what that requires.
fn fits(document: &Value, name: &str, value: &Value) {
    let schema = &document["components"]["schemas"][name];
    let fields = value.as_object().unwrap_or_else(|| panic!("{name}: {value}"));
    if let Some(kinds) = schema["oneOf"].as_array() {
        let (kind, inner) = fields.iter().next().unwrap();
        let of = kinds.iter().find(|of| of["properties"][kind].is_object()).unwrap_or_else(|| panic!("{name}: {kind}"));
        return fits(document, named(&of["properties"][kind]).unwrap(), inner);
    }
    for (key, inner) in fields {
        let property = &schema["properties"][key];
        assert!(property.is_object(), "{name} has no `{key}`: {value}");
        if let Some(name) = named(property).filter(|_| inner.is_object()) {
            fits(document, name, inner);
        }
    }
    for required in schema["required"].as_array().into_iter().flatten() {
        assert!(value.get(required.as_str().unwrap()).is_some(), "{name} lacks {required}: {value}");
    }
}

#[test]
fn what_others_serialize_is_as_it_is_described() {
    let document = document();
    let plugin = || Arc::from("p");
    let remedies = [
        Remedy::Grant { plugin: plugin(), capability: Capability::Files, name: "n".into(), access: Some(Access::Read) },
        Remedy::AllowHttp {
            scope: HttpScope::Plugin(plugin()),
            origin: "https://a.example".into(),
            method: Some("GET".into()),
            private: true,
        },
        Remedy::CoverPath { plugin: plugin(), name: "n".into() },
        Remedy::DeclareInSession { part: SessionPart::Tool, name: "n".into() },
        Remedy::ControlFiles { plugin: Some(plugin()), name: "n".into() },
        Remedy::OpenFolder,
        Remedy::Nothing,
    ];
    let denial = |remedy: &Remedy| Denial { capability: "files n".into(), rule: "r".into(), remedy: remedy.clone() };
    for remedy in &remedies {
        fits(&document, "DeniedCapability", &json!(denial(remedy)));
    }
    let [granted, ..] = &remedies;
    let (step, id): (Arc<str>, Arc<str>) = ("s".into(), "i".into());
    let questions = [
        Question::Signal {
            name: "n".into(),
            step: step.clone(),
            question: None,
            approval: true,
            id: id.clone(),
            path: "s".into(),
            visit: 1,
            again: true,
        },
        Question::Doubt { effect: EffectId(1), step: step.clone(), what: "w".into() },
        Question::Grant {
            effect: EffectId(1),
            step,
            what: "w".into(),
            denial: Box::new(denial(granted)),
            why: None,
            id: id.clone(),
            again: true,
        },
        Question::Input {
            effect: EffectId(1),
            id: id.clone(),
            step: id.clone(),
            path: id.clone(),
            visit: 1,
            server: id.clone(),
            tool: id.clone(),
            message: id,
            schema: opcell_types::Value::Null,
            round: 1,
        },
    ];
    for question in &questions {
        fits(&document, "RunQuestion", &json!(question));
    }
    fits(&document, "UsedByRun", &json!(Used::default()));
    let finding = Diagnostic::warning("c", "m").help("h");
    fits(&document, "Finding", &report::to_json(None, &finding));
}
