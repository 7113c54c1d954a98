use super::*;
use opcell_ir::ir::{ModelQuery, ModelSelection};
use opcell_types::Value;
use serde_json::json;

fn models() -> Models {
    let config = json!({
        "providers": {
            "house": {"api": "ollama", "models": [
                {"id": "small", "locality": "local", "cost-tier": "zero", "latency-tier": "low", "input-cost": 0.0, "context-window": 8000},
                {"id": "shared", "locality": "local", "cost-tier": "low", "latency-tier": "high", "context-window": 64000, "supports-reasoning": true}
            ]},
            "cloud": {"api": "openai-completions", "models": [
                {"id": "shared", "locality": "cloud", "cost-tier": "high", "input-cost": 3.0, "context-window": 200000},
                {"id": "cheap", "locality": "cloud", "cost-tier": "low", "input-cost": 0.5, "supports-text": true, "supports-reasoning": false}
            ]},
            "locked": {"api": "gemini", "api-key": "env:OPCELL_TEST_NOT_SET", "models": [{"id": "g", "locality": "cloud", "input-cost": 0.1}]}
        }
    });
    Models::new(serde_json::from_value(config).unwrap()).unwrap()
}

fn query(json: serde_json::Value) -> ModelSelection {
    let selection: ModelSelection = serde_json::from_value(json).unwrap();
    assert!(matches!(selection, ModelSelection::Query(_)));
    selection
}

fn select(selection: ModelSelection) -> Result<Vec<String>, SelectError> {
    models().select(Some(&selection))
}

#[test]
fn an_id_is_a_listed_model_or_names_its_provider() {
    let id = |id: &str| select(ModelSelection::Id(id.to_owned()));
    assert_eq!(id("shared").unwrap(), ["house/shared"], "the first listed one, as in psi");
    assert_eq!(id("cloud/shared").unwrap(), ["cloud/shared"]);
    assert_eq!(id("cloud/not-listed").unwrap(), ["cloud/not-listed"]);
    assert_eq!(id("openai/gpt").unwrap(), ["openai/gpt"], "known providers need no configuration");
    let error = id("cheep").unwrap_err().to_string();
    assert!(
        error.contains("`cheep`") && error.contains("did you mean `cheap`?") && error.contains("house, cloud, locked"),
        "{error}"
    );
    assert!(id("nobody/x").is_err());
}

/// The query of a real psi workflow.
#[test]
fn requirements_filter_and_preferences_rank() {
    let ranked = select(query(json!({
        "require": [
            {"criterion": "supports-text", "match": "true"},
            {"criterion": "locality", "equals": "local"},
            {"criterion": "cost-tier", "one-of": ["zero", "low"]}
        ],
        "prefer": [{"criterion": "input-cost", "prefer": "lower"}]
    })));
    assert_eq!(ranked.unwrap(), ["house/small", "house/shared"], "a model of unknown cost comes after one of known");
}

#[test]
fn tiers_rank_by_meaning_and_bounds_need_a_known_number() {
    let ranked = select(query(
        json!({"prefer": [{"criterion": "cost-tier", "prefer": "higher"}, {"criterion": "latency-tier", "prefer": "lower"}]}),
    ));
    assert_eq!(ranked.unwrap(), ["cloud/shared", "house/shared", "cloud/cheap", "house/small"]);
    let ranked = select(query(
        json!({"require": [{"criterion": "context-window", "at-least": 64000}, {"criterion": "context-window", "at-most": 100000}]}),
    ));
    assert_eq!(ranked.unwrap(), ["house/shared"]);
}

#[test]
fn a_bare_name_asks_whether_the_attribute_is_there_and_true() {
    assert_eq!(select(query(json!({"require": ["supports-reasoning"]}))).unwrap(), ["house/shared"]);
    let ranked = select(query(json!({"prefer": [{"criterion": "locality", "equals": "cloud"}, "supports-reasoning"]})));
    assert_eq!(ranked.unwrap(), ["cloud/shared", "cloud/cheap", "house/shared", "house/small"]);
}

#[test]
fn models_without_their_key_are_left_out_and_said() {
    let error =
        select(query(json!({"require": [{"criterion": "provider", "equals": "locked"}]}))).unwrap_err().to_string();
    assert!(error.contains("locked/g (its key is not set)"), "{error}");
}

#[test]
fn a_fallback_is_asked_when_no_model_passes() {
    let none = json!([{"criterion": "context-window", "at-least": 999_999_999}]);
    assert_eq!(select(query(json!({"require": none, "fallback": "cheap"}))).unwrap(), ["cloud/cheap"]);
    let nested = json!({"require": none, "fallback": {"require": none, "fallback": {"require": [{"criterion": "id", "equals": "small"}]}}});
    assert_eq!(select(query(nested)).unwrap(), ["house/small"]);
    assert!(matches!(select(query(json!({"require": none}))), Err(SelectError::NonePasses { .. })));
}

#[test]
fn a_clause_that_cannot_be_read_is_an_error() {
    let error = |require: serde_json::Value| select(query(json!({"require": [require]}))).unwrap_err().to_string();
    assert!(error(json!("suports-text")).contains("did you mean `supports-text`?"));
    assert!(error(json!({"criterion": "id", "equal": "x"})).contains("did you mean `equals`?"));
    assert!(error(json!({"equals": "x"})).contains("got {\"equals\":\"x\"}"));
    assert!(error(json!(3)).contains("got 3"));
    assert!(error(json!({"criterion": "id", "prefer": "less"})).contains("`lower` or `higher`"));
}

#[test]
fn without_a_choice_the_default_is_used_or_its_absence_said() {
    assert_eq!(models().select(None), Err(SelectError::NoDefault));
    let default = Some(ModelSelection::Query(ModelQuery {
        require: vec![Value::from("supports-text")],
        ..ModelQuery::default()
    }));
    let models = Models::new(ModelsConfig { default, ..ModelsConfig::default() }).unwrap();
    assert!(matches!(models.select(None), Err(SelectError::NonePasses { .. })), "nothing is listed");
}

#[test]
fn a_scripted_model_answers_as_whatever_is_asked_for() {
    let script = ScriptedModel::parse("s", "version: 1\nturns: []").unwrap();
    let models = Models::only(std::sync::Arc::new(script));
    assert_eq!(models.select(Some(&ModelSelection::Id("any/thing".to_owned()))).unwrap(), ["any/thing"]);
    assert_eq!(models.select(None).unwrap(), ["scripted"]);
}
