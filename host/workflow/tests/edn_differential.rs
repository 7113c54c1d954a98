//! Our EDN reader against another one, on the EDN that both accept.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test")]

use std::collections::HashSet;

use clojure_reader::edn::{self as other, Edn};
use opcell_workflow::edn::{Kind, Node, read};
use proptest::prelude::*;

/// A value in one notation for both readers; entries of maps and elements of sets in a fixed order.
fn ours(node: &Node) -> String {
    let join = |items: Vec<String>| items.join(" ");
    match &node.kind {
        Kind::List(items) => format!("({})", join(items.iter().map(ours).collect())),
        Kind::Vector(items) => format!("[{}]", join(items.iter().map(ours).collect())),
        Kind::Set(items) => {
            let mut items: Vec<String> = items.iter().map(ours).collect();
            items.sort();
            format!("#{{{}}}", join(items))
        }
        Kind::Map(entries) => {
            let mut entries: Vec<String> = entries.iter().map(|(k, v)| format!("{} {}", ours(k), ours(v))).collect();
            entries.sort();
            format!("{{{}}}", entries.join(", "))
        }
        Kind::Tagged(tag, form) => format!("#{tag} {}", ours(form)),
        Kind::Float(n) => format!("{n:?}"),
        Kind::Char(c) => format!("char {c:?}"),
        Kind::String(text) => format!("{text:?}"),
        Kind::Keyword(name) => format!(":{name}"),
        Kind::Symbol(name) => name.to_string(),
        _ => node.to_string(),
    }
}

fn theirs(value: &Edn<'_>) -> String {
    let join = |items: Vec<String>| items.join(" ");
    match value {
        Edn::Nil => "nil".to_owned(),
        Edn::Bool(b) => b.to_string(),
        Edn::Int(n) => n.to_string(),
        Edn::Double(n) => format!("{:?}", f64::from(*n)),
        Edn::Char(c) => format!("char {c:?}"),
        Edn::Str(text) => format!("{:?}", text.as_ref()),
        Edn::Key(name) => format!(":{name}"),
        Edn::Symbol(name) => name.to_string(),
        Edn::List(items) => format!("({})", join(items.iter().map(theirs).collect())),
        Edn::Vector(items) => format!("[{}]", join(items.iter().map(theirs).collect())),
        Edn::Set(items) => {
            let mut items: Vec<String> = items.iter().map(theirs).collect();
            items.sort();
            format!("#{{{}}}", join(items))
        }
        Edn::Map(entries) => {
            let mut entries: Vec<String> =
                entries.iter().map(|(k, v)| format!("{} {}", theirs(k), theirs(v))).collect();
            entries.sort();
            format!("{{{}}}", entries.join(", "))
        }
        Edn::Tagged(tag, form) => format!("#{tag} {}", theirs(form)),
        value => panic!("not in what the generator writes: {value}"),
    }
}

/// A value as Clojure compares it: a list equals the vector of the same elements. The other reader keeps the two apart.
fn compared(value: &Edn<'_>) -> String {
    let sorted = |mut items: Vec<String>| {
        items.sort();
        items.join(" ")
    };
    match value {
        Edn::List(items) | Edn::Vector(items) => {
            format!("[{}]", items.iter().map(compared).collect::<Vec<_>>().join(" "))
        }
        Edn::Set(items) => format!("#{{{}}}", sorted(items.iter().map(compared).collect())),
        Edn::Map(entries) => {
            let entries = entries.iter().map(|(k, v)| format!("{} {}", compared(k), compared(v)));
            format!("{{{}}}", sorted(entries.collect()))
        }
        Edn::Tagged(tag, form) => format!("#{tag} {}", compared(form)),
        scalar => theirs(scalar),
    }
}

/// Returns `true` if a set holds an element twice, or a map a key, as Clojure compares them.
fn says_something_twice(value: &Edn<'_>) -> bool {
    let twice = |items: Vec<&Edn<'_>>| {
        let mut seen = HashSet::new();
        !items.into_iter().all(|item| seen.insert(compared(item)))
    };
    match value {
        Edn::List(items) | Edn::Vector(items) => items.iter().any(says_something_twice),
        Edn::Set(items) => twice(items.iter().collect()) || items.iter().any(says_something_twice),
        Edn::Map(entries) => {
            twice(entries.keys().collect())
                || entries.iter().any(|(k, v)| says_something_twice(k) || says_something_twice(v))
        }
        Edn::Tagged(_, form) => says_something_twice(form),
        _ => false,
    }
}

/// EDN text, made of what both readers know.
fn edn_text() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        Just("nil".to_owned()),
        any::<bool>().prop_map(|b| b.to_string()),
        any::<i64>().prop_map(|n| n.to_string()),
        (-1e6..1e6f64).prop_map(|n| format!("{n:?}")),
        "[a-z][a-z0-9-]{0,5}(/[a-z]{1,3})?",
        ":[a-z][a-z0-9-]{0,5}(/[a-z]{1,3})?",
        "\"[a-zA-Z0-9 é;#{}\\[\\]]{0,8}\"",
        Just("\"a\\n\\t\\\"\\\\\"".to_owned()),
        prop::sample::select(vec!["\\a", "\\newline", "\\space", "\\é"]).prop_map(str::to_owned),
    ];
    scalar.prop_recursive(4, 32, 4, |inner| {
        let items = || prop::collection::vec(inner.clone(), 0..4);
        prop_oneof![
            items().prop_map(|items| format!("[{}]", items.join(" "))),
            items().prop_map(|items| format!("({})", items.join(", "))),
            items().prop_map(|items| format!("#{{{}}}", items.join("\n"))),
            prop::collection::vec((inner.clone(), inner.clone()), 0..4).prop_map(|entries| {
                let entries: Vec<String> = entries.into_iter().map(|(k, v)| format!("{k} {v}")).collect();
                format!("{{{}}}", entries.join(", "))
            }),
            inner.clone().prop_map(|form| format!("#my/tag {form}")),
            // What is dropped is read too: ours refuses duplicates in it, as Clojure does, and the other does not.
            (prop::sample::select(vec!["x", "[1 {:a (2)}]", "\"]\""]), inner)
                .prop_map(|(dropped, kept)| format!("[#_ {dropped} {kept} ; so\n]")),
        ]
    })
}

proptest! {
    #[test]
    fn both_readers_give_the_same_value_or_both_refuse(text in edn_text()) {
        let ours = read(&text).map(|reading| reading.form.as_ref().map(ours));
        let theirs = other::read_string(&text).ok().filter(|value| !says_something_twice(value)).map(|value| theirs(&value));
        match (ours, theirs) {
            (Ok(ours), Some(theirs)) => prop_assert_eq!(ours, Some(theirs), "{}", text),
            (Err(_), None) => {}
            (ours, theirs) => prop_assert!(false, "{:?} against {:?}: {}", ours, theirs, text),
        }
    }
}
