//! The arguments of `workflow/exact-marker-routing`, checked as a whole: every mistake is listed, each with its own
//! reason.

use super::exact_field;
use crate::text;
use opcell_sdk::Failure;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;

const TEXT: &str = "text";
const LABEL: &str = "marker-label";
const ROUTES: &str = "allowed-routes";
const FIELDS: &str = "required-fields-by-route";
const FIELD_LABELS: &str = "required-field-labels-by-route";
const SOURCE: &str = "required-fields-source-text";
const FORBIDDEN: &str = "forbidden-field-labels-by-route";

/// The arguments as they came. The schema describes them and leaves the checking to [`check`](Self::check).
#[derive(Deserialize)]
#[serde(transparent)]
pub struct MarkerArguments(Map<String, Value>);

impl JsonSchema for MarkerArguments {
    fn schema_name() -> Cow<'static, str> {
        "MarkerArguments".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "properties": {
                TEXT: { "description": "The text with one line `LABEL: TOKEN`." },
                LABEL: { "description": "The label, `[A-Z_]+`." },
                ROUTES: { "description": "The tokens that are routes, each `[A-Z_]+`, at least one and no two the same." },
                FIELDS: { "description": "By route, the fields that must stand beside the marker: label to value." },
                FIELD_LABELS: { "description": "By route, the labels of fields whose value the source text gives." },
                SOURCE: { "description": "Where the values of required-field-labels-by-route stand." },
                FORBIDDEN: { "description": "By route, the labels of fields that must not stand beside the marker." },
            },
        })
    }
}

/// Arguments that were checked.
pub struct MarkerRequest {
    pub text: String,
    pub label: String,
    pub allowed_routes: Vec<String>,
    pub source_text: Option<String>,
    fields: BTreeMap<String, BTreeMap<String, String>>,
    field_labels: BTreeMap<String, Vec<String>>,
    forbidden: BTreeMap<String, Vec<String>>,
}

impl MarkerRequest {
    /// Label to value, for the fields that the arguments themselves give.
    pub fn required_fields(&self, route: &str) -> BTreeMap<String, String> {
        self.fields.get(route).cloned().unwrap_or_default()
    }

    /// Labels of fields whose value the source text gives.
    pub fn source_labels(&self, route: &str) -> &[String] {
        self.field_labels.get(route).map(Vec::as_slice).unwrap_or_default()
    }

    pub fn forbidden_labels(&self, route: &str) -> &[String] {
        self.forbidden.get(route).map(Vec::as_slice).unwrap_or_default()
    }

    /// Labels of fields that any route requires.
    pub fn all_required_labels(&self) -> impl Iterator<Item = &str> {
        let direct = self.fields.values().flat_map(BTreeMap::keys);
        direct.chain(self.field_labels.values().flatten()).map(String::as_str)
    }
}

impl MarkerArguments {
    /// The request, or every mistake in it.
    pub fn check(&self) -> Result<MarkerRequest, Failure> {
        let mut errors = Vec::new();
        self.check_text(&mut errors);
        self.check_label(&mut errors);
        self.check_routes(&mut errors);
        self.check_field_labels(&mut errors);
        self.check_fields(&mut errors);
        self.check_conflicts(&mut errors);
        self.check_forbidden(&mut errors);
        self.check_required_and_forbidden(&mut errors);
        self.check_marker_as_field(&mut errors);
        if errors.is_empty()
            && let Some(request) = self.request()
        {
            return Ok(request);
        }
        Err(Failure::new("invalid-route-marker-args", "workflow/exact-marker-routing args are invalid")
            .with_details(json!({ "errors": errors })))
    }

    fn request(&self) -> Option<MarkerRequest> {
        let read = |key: &str| self.given(key).cloned();
        Some(MarkerRequest {
            text: self.0.get(TEXT)?.as_str()?.to_owned(),
            label: self.0.get(LABEL)?.as_str()?.to_owned(),
            allowed_routes: serde_json::from_value(self.0.get(ROUTES)?.clone()).ok()?,
            source_text: self.0.get(SOURCE).and_then(Value::as_str).map(str::to_owned),
            fields: read(FIELDS).map_or_else(|| Some(BTreeMap::new()), |value| serde_json::from_value(value).ok())?,
            field_labels: read(FIELD_LABELS)
                .map_or_else(|| Some(BTreeMap::new()), |value| serde_json::from_value(value).ok())?,
            forbidden: read(FORBIDDEN)
                .map_or_else(|| Some(BTreeMap::new()), |value| serde_json::from_value(value).ok())?,
        })
    }

    /// A key's value; null is as good as none.
    fn given(&self, key: &str) -> Option<&Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    /// A key's value by route, if it is a map.
    fn by_route(&self, key: &str) -> impl Iterator<Item = (&String, &Value)> {
        self.0.get(key).and_then(Value::as_object).into_iter().flatten()
    }

    /// Whether a route is known not to be allowed.
    fn is_unsupported(&self, route: &str) -> bool {
        self.0.get(ROUTES).and_then(Value::as_array).is_some_and(|routes| !routes.iter().any(|other| other == route))
    }

    fn check_text(&self, errors: &mut Vec<Value>) {
        match self.0.get(TEXT) {
            None => errors.push(json!({ "field": TEXT, "reason": "missing-text" })),
            Some(Value::String(_)) => {}
            Some(other) => errors.push(json!({ "field": TEXT, "reason": "non-string-text", "value": other })),
        }
    }

    fn check_label(&self, errors: &mut Vec<Value>) {
        let reason = match self.0.get(LABEL) {
            None => return errors.push(json!({ "field": LABEL, "reason": "missing-marker-label" })),
            Some(Value::String(label)) if text::is_token(label) => return,
            Some(Value::String(_)) => "invalid-marker-label",
            Some(_) => "non-string-marker-label",
        };
        errors.push(json!({ "field": LABEL, "reason": reason, "value": self.0.get(LABEL) }));
    }

    fn check_routes(&self, errors: &mut Vec<Value>) {
        let routes = match self.0.get(ROUTES) {
            None => return errors.push(json!({ "field": ROUTES, "reason": "missing-allowed-routes" })),
            Some(Value::Array(routes)) if routes.is_empty() => {
                return errors.push(json!({ "field": ROUTES, "reason": "empty-allowed-routes" }));
            }
            Some(Value::Array(routes)) => routes,
            Some(other) => {
                return errors.push(json!({ "field": ROUTES, "reason": "non-vector-allowed-routes", "value": other }));
            }
        };
        for (index, route) in routes.iter().enumerate().filter(|(_, route)| !is_token(route)) {
            errors.push(json!({ "field": ROUTES, "reason": "invalid-allowed-route", "index": index, "value": route }));
        }
        for (route, indices) in repeated(routes).into_iter().filter(|(route, _)| is_token(route)) {
            errors.push(
                json!({ "field": ROUTES, "reason": "duplicate-allowed-route", "value": route, "indices": indices }),
            );
        }
    }

    fn check_field_labels(&self, errors: &mut Vec<Value>) {
        let requested =
            self.by_route(FIELD_LABELS).any(|(_, labels)| labels.as_array().is_some_and(|labels| !labels.is_empty()));
        let source = self.0.get(SOURCE);
        if requested && !source.is_some_and(Value::is_string) {
            return errors
                .push(json!({ "field": SOURCE, "reason": "non-string-required-fields-source-text", "value": source }));
        }
        let reasons = LabelReasons {
            not_a_map: "non-map-required-field-labels-by-route",
            unsupported: "unsupported-required-field-labels-route",
            invalid: "invalid-required-field-labels",
            duplicate: "duplicate-required-field-label",
        };
        self.check_labels_by_route(FIELD_LABELS, &reasons, errors);
    }

    fn check_forbidden(&self, errors: &mut Vec<Value>) {
        let reasons = LabelReasons {
            not_a_map: "non-map-field-labels-by-route",
            unsupported: "unsupported-field-labels-route",
            invalid: "invalid-field-labels",
            duplicate: "duplicate-field-label",
        };
        self.check_labels_by_route(FORBIDDEN, &reasons, errors);
    }

    fn check_labels_by_route(&self, key: &str, reasons: &LabelReasons, errors: &mut Vec<Value>) {
        if let Some(value) = self.given(key)
            && !value.is_object()
        {
            return errors.push(json!({ "field": key, "reason": reasons.not_a_map, "value": value }));
        }
        for (route, labels) in self.by_route(key) {
            if self.is_unsupported(route) {
                errors.push(json!({ "field": key, "reason": reasons.unsupported, "value": route }));
            }
            let list = labels.as_array();
            if !list.is_some_and(|labels| labels.iter().all(is_token)) {
                errors.push(json!({ "field": key, "reason": reasons.invalid, "route": route, "value": labels }));
            }
            for (label, indices) in list.map(|labels| repeated(labels)).unwrap_or_default() {
                let reason = reasons.duplicate;
                errors.push(
                    json!({ "field": key, "reason": reason, "route": route, "value": label, "indices": indices }),
                );
            }
        }
    }

    fn check_fields(&self, errors: &mut Vec<Value>) {
        if let Some(value) = self.given(FIELDS)
            && !value.is_object()
        {
            return errors
                .push(json!({ "field": FIELDS, "reason": "non-map-required-fields-by-route", "value": value }));
        }
        for (route, fields) in self.by_route(FIELDS) {
            if self.is_unsupported(route) {
                errors.push(json!({ "field": FIELDS, "reason": "unsupported-required-fields-route", "value": route }));
            }
            let Some(fields) = fields.as_object() else {
                errors.push(
                    json!({ "field": FIELDS, "reason": "non-map-required-fields", "route": route, "value": fields }),
                );
                continue;
            };
            for (label, value) in fields {
                if !text::is_token(label) {
                    let reason = "invalid-required-field-label";
                    errors.push(json!({ "field": FIELDS, "reason": reason, "route": route, "value": label }));
                }
                if value.as_str().is_none_or(text::is_blank) {
                    let reason = "invalid-required-field-value";
                    errors.push(
                        json!({ "field": FIELDS, "reason": reason, "route": route, "label": label, "value": value }),
                    );
                }
            }
        }
    }

    /// A field may have its value from both places only if they agree.
    fn check_conflicts(&self, errors: &mut Vec<Value>) {
        let Some(source_text) = self.0.get(SOURCE).and_then(Value::as_str) else { return };
        for (route, labels) in self.by_route(FIELD_LABELS) {
            for label in strings(labels).filter(|label| text::is_token(label)) {
                let Some(direct) = self.direct_field(route, label).filter(|value| !text::is_blank(value)) else {
                    continue;
                };
                let Some(source) = exact_field(source_text, label).filter(|source| *source != direct) else { continue };
                errors.push(json!({
                    "field": FIELDS, "reason": "conflicting-required-field-sources", "route": route, "label": label,
                    "direct-value": direct, "source-value": source,
                }));
            }
        }
    }

    fn check_required_and_forbidden(&self, errors: &mut Vec<Value>) {
        for (route, forbidden) in self.by_route(FORBIDDEN) {
            let direct = self.0.get(FIELDS).and_then(|fields| fields.get(route)).and_then(Value::as_object);
            let direct = direct.into_iter().flat_map(Map::keys).map(String::as_str);
            let sourced = self.0.get(FIELD_LABELS).and_then(|labels| labels.get(route)).into_iter().flat_map(strings);
            let mut seen = Vec::new();
            for label in direct.chain(sourced).filter(|label| text::is_token(label)) {
                if !seen.contains(&label) && strings(forbidden).any(|other| other == label) {
                    let reason = "required-and-forbidden-route-field";
                    errors.push(json!({ "field": FORBIDDEN, "reason": reason, "route": route, "label": label }));
                }
                seen.push(label);
            }
        }
    }

    /// The marker is not a field.
    fn check_marker_as_field(&self, errors: &mut Vec<Value>) {
        let Some(marker) = self.0.get(LABEL).and_then(Value::as_str) else { return };
        let mut overlap = |key: &str, route: &str| {
            errors.push(json!({ "field": key, "reason": "marker-label-route-field", "route": route, "label": marker }));
        };
        for (route, _) in self.by_route(FIELDS).filter(|(_, fields)| fields.get(marker).is_some()) {
            overlap(FIELDS, route);
        }
        for key in [FIELD_LABELS, FORBIDDEN] {
            for (route, _) in self.by_route(key).filter(|(_, labels)| strings(labels).any(|label| label == marker)) {
                overlap(key, route);
            }
        }
    }

    fn direct_field(&self, route: &str, label: &str) -> Option<&str> {
        self.0.get(FIELDS)?.get(route)?.get(label)?.as_str()
    }
}

/// How the mistakes of one list of labels by route are called.
struct LabelReasons {
    not_a_map: &'static str,
    unsupported: &'static str,
    invalid: &'static str,
    duplicate: &'static str,
}

fn is_token(value: &Value) -> bool {
    value.as_str().is_some_and(text::is_token)
}

fn strings(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// The values that stand more than once, with their places.
fn repeated(list: &[Value]) -> Vec<(&Value, Vec<usize>)> {
    let mut places: Vec<(&Value, Vec<usize>)> = Vec::new();
    for (index, value) in list.iter().enumerate() {
        match places.iter_mut().find(|(other, _)| *other == value) {
            Some((_, indices)) => indices.push(index),
            None => places.push((value, vec![index])),
        }
    }
    places.retain(|(_, indices)| indices.len() > 1);
    places
}

#[cfg(test)]
mod tests {
    use crate::exact_marker_routing;
    use opcell_sdk::testing::invoke;
    use serde_json::{Value, json};

    /// Field and reason of every mistake.
    fn mistakes(change: Value) -> Vec<(String, String)> {
        let mut arguments = json!({ "text": "ROUTE: A", "marker-label": "ROUTE", "allowed-routes": ["A", "B"] });
        for (key, value) in change.as_object().unwrap() {
            match value.as_str() {
                Some("absent") => _ = arguments.as_object_mut().unwrap().remove(key),
                _ => arguments[key] = value.clone(),
            }
        }
        let failure = invoke::<exact_marker_routing>(&arguments).unwrap_err();
        assert_eq!(failure.reason, "invalid-route-marker-args", "{arguments}");
        assert_eq!(failure.message, "workflow/exact-marker-routing args are invalid");
        let text = |error: &Value, key: &str| error[key].as_str().unwrap().to_owned();
        let details = failure.details.unwrap();
        details["errors"]
            .as_array()
            .unwrap()
            .iter()
            .map(|error| (text(error, "field"), text(error, "reason")))
            .collect()
    }

    #[test]
    fn each_mistake_has_its_own_reason() {
        for (change, field, reason) in [
            (json!({ "text": "absent" }), "text", "missing-text"),
            (json!({ "text": null }), "text", "non-string-text"),
            (json!({ "marker-label": "absent" }), "marker-label", "missing-marker-label"),
            (json!({ "marker-label": 1 }), "marker-label", "non-string-marker-label"),
            (json!({ "marker-label": "Route" }), "marker-label", "invalid-marker-label"),
            (json!({ "allowed-routes": "absent" }), "allowed-routes", "missing-allowed-routes"),
            (json!({ "allowed-routes": {} }), "allowed-routes", "non-vector-allowed-routes"),
            (json!({ "allowed-routes": [] }), "allowed-routes", "empty-allowed-routes"),
            (json!({ "allowed-routes": ["A", "b"] }), "allowed-routes", "invalid-allowed-route"),
            (json!({ "allowed-routes": ["A", "A"] }), "allowed-routes", "duplicate-allowed-route"),
            (json!({ "required-fields-by-route": [] }), "required-fields-by-route", "non-map-required-fields-by-route"),
            (json!({ "required-fields-by-route": { "A": [] } }), "required-fields-by-route", "non-map-required-fields"),
            (
                json!({ "required-fields-by-route": { "C": {} } }),
                "required-fields-by-route",
                "unsupported-required-fields-route",
            ),
            (
                json!({ "required-fields-by-route": { "A": { "x": "1" } } }),
                "required-fields-by-route",
                "invalid-required-field-label",
            ),
            (
                json!({ "required-fields-by-route": { "A": { "X": " " } } }),
                "required-fields-by-route",
                "invalid-required-field-value",
            ),
            (
                json!({ "required-fields-by-route": { "A": { "ROUTE": "1" } } }),
                "required-fields-by-route",
                "marker-label-route-field",
            ),
            (
                json!({ "forbidden-field-labels-by-route": 1 }),
                "forbidden-field-labels-by-route",
                "non-map-field-labels-by-route",
            ),
            (
                json!({ "forbidden-field-labels-by-route": { "C": [] } }),
                "forbidden-field-labels-by-route",
                "unsupported-field-labels-route",
            ),
            (
                json!({ "forbidden-field-labels-by-route": { "A": ["x"] } }),
                "forbidden-field-labels-by-route",
                "invalid-field-labels",
            ),
            (
                json!({ "forbidden-field-labels-by-route": { "A": ["X", "X"] } }),
                "forbidden-field-labels-by-route",
                "duplicate-field-label",
            ),
        ] {
            assert_eq!(mistakes(change.clone()), [(field.to_owned(), reason.to_owned())], "{change}");
        }
    }

    #[test]
    fn labels_with_a_source_need_the_source() {
        let labels = json!({ "required-field-labels-by-route": { "A": ["X"] } });
        assert_eq!(
            mistakes(labels),
            [("required-fields-source-text".to_owned(), "non-string-required-fields-source-text".to_owned())]
        );
        for (labels, reason) in [
            (json!(1), "non-map-required-field-labels-by-route"),
            (json!({ "C": [] }), "unsupported-required-field-labels-route"),
            (json!({ "A": ["x"] }), "invalid-required-field-labels"),
            (json!({ "A": ["X", "X"] }), "duplicate-required-field-label"),
        ] {
            let change = json!({ "required-field-labels-by-route": labels, "required-fields-source-text": "X: 1" });
            assert_eq!(mistakes(change), [("required-field-labels-by-route".to_owned(), reason.to_owned())]);
        }
    }

    #[test]
    fn a_field_cannot_have_two_values_nor_be_forbidden_as_well() {
        let change = json!({
            "required-fields-by-route": { "A": { "X": "1" } },
            "required-field-labels-by-route": { "A": ["X"] },
            "required-fields-source-text": "X: 2",
            "forbidden-field-labels-by-route": { "A": ["X"] },
        });
        let reasons: Vec<_> = mistakes(change).into_iter().map(|(_, reason)| reason).collect();
        assert_eq!(reasons, ["conflicting-required-field-sources", "required-and-forbidden-route-field"]);
    }

    #[test]
    fn mistakes_are_listed_together() {
        assert_eq!(mistakes(json!({ "text": 1, "marker-label": "x", "allowed-routes": [] })).len(), 3);
    }
}
