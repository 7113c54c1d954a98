//! An operation and a judge. `opcell plugin build` builds `dist/{{name}}.wasm` from them.

use opcell_sdk::serde_json::{Value, json};
use opcell_sdk::{Verdict, judge, operation, plugin};

/// Greets a person by name.
#[operation("{{name}}/greet", effects = pure)]
fn greet(name: String) -> Value {
    json!({ "greeting": format!("Hello, {name}!") })
}

/// Says whether a text is polite.
#[judge("{{name}}/tone", outcomes = ["polite", "rude"])]
fn tone(text: String) -> Verdict {
    if text.to_lowercase().contains("please") { Verdict::text("polite") } else { Verdict::text("rude") }
}

plugin! { operations: [greet], judges: [tone] }

#[cfg(test)]
mod tests {
    use super::*;
    use opcell_sdk::testing::invoke;

    #[test]
    fn a_person_is_greeted_by_name() {
        let success = invoke::<greet>(&json!({ "name": "Ada" })).unwrap();
        assert_eq!(success.data, json!({ "greeting": "Hello, Ada!" }));
    }
}
