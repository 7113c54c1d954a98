//! `LABEL: TOKEN` lines: one exact marker decides the route, and fields of the same form may have to go with it.

mod arguments;

use crate::{Routed, route, text};
use opcell_sdk::Failure;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

pub use arguments::MarkerArguments;
use arguments::MarkerRequest;

/// A line that is, or tries to be, the marker.
struct Candidate<'a> {
    line: &'a str,
    kind: Kind<'a>,
}

enum Kind<'a> {
    Exact(&'a str),
    /// A well-formed token that is not an allowed route.
    Unsupported(&'a str),
    /// Why, and the token that was read, if it came to that.
    Malformed(&'static str, Option<&'a str>),
}

impl Candidate<'_> {
    fn details(&self) -> Value {
        match self.kind {
            Kind::Exact(route) => json!({ "kind": "exact", "line": self.line, "route": route }),
            Kind::Unsupported(value) => json!({ "kind": "unsupported", "line": self.line, "value": value }),
            Kind::Malformed(reason, None) => json!({ "kind": "malformed", "line": self.line, "reason": reason }),
            Kind::Malformed(reason, Some(value)) => {
                json!({ "kind": "malformed", "line": self.line, "reason": reason, "value": value })
            }
        }
    }
}

/// What the line is, if it has to do with the marker at all.
fn classify<'a>(line: &'a str, request: &MarkerRequest) -> Option<Candidate<'a>> {
    let label = request.label.as_str();
    let trimmed = text::trim_start(line);
    let after_label = trimmed.strip_prefix(label)?;
    let space_before_colon = text::is_colon_after_space(after_label);
    if !after_label.starts_with(':') && !space_before_colon {
        return None;
    }
    let kind = if line != trimmed {
        Kind::Malformed("leading-whitespace", None)
    } else if space_before_colon {
        Kind::Malformed("whitespace-before-colon", None)
    } else {
        match after_label.strip_prefix(": ") {
            None => Kind::Malformed("missing-space-after-colon", None),
            Some(token) if !text::is_token(token) => Kind::Malformed("malformed-route-token", Some(token)),
            Some(token) if request.allowed_routes.iter().any(|route| route == token) => Kind::Exact(token),
            Some(token) => Kind::Unsupported(token),
        }
    };
    Some(Candidate { line, kind })
}

/// The route of the one marker in the text, its fields checked.
pub fn parse(arguments: &MarkerArguments) -> Result<Routed, Failure> {
    let request = arguments.check()?;
    let MarkerRequest { text, label, .. } = &request;
    let candidates: Vec<Candidate<'_>> = text.lines().filter_map(|line| classify(line, &request)).collect();
    let only = match candidates.as_slice() {
        [] => {
            return Err(Failure::new("missing-route-marker", format!("{label} marker missing"))
                .with_details(json!({ "text": text, "marker-label": label })));
        }
        [only] => only,
        several => {
            let lines: Vec<&str> = several.iter().map(|candidate| candidate.line).collect();
            let all: Vec<Value> = several.iter().map(Candidate::details).collect();
            let details = json!({
                "text": text, "marker-label": label, "route-marker-lines": lines, "route-marker-candidates": all,
            });
            return Err(Failure::new("ambiguous-route-marker", format!("Multiple {label} marker lines found"))
                .with_details(details));
        }
    };
    let line = only.line;
    match only.kind {
        Kind::Exact(token) => {
            let fields = fields(&request, token)?;
            if fields.is_empty() {
                return Ok(route(token));
            }
            Ok(route(token).with_details(json!({ "fields": fields })))
        }
        Kind::Unsupported(value) => {
            Err(Failure::new("unsupported-route-marker", format!("{label} route token is not supported")).with_details(
                json!({
                    "text": text, "marker-label": label, "line": line, "value": value,
                    "allowed-routes": request.allowed_routes,
                }),
            ))
        }
        Kind::Malformed(reason, value) => {
            let mut details = json!({ "text": text, "marker-label": label, "line": line, "reason": reason });
            if let (Value::Object(details), Some(value)) = (&mut details, value) {
                details.insert("value".to_owned(), value.into());
            }
            let message = format!(
                "{label} marker must start at column 0 with exactly one space after colon, one route token, and no trailing text"
            );
            Err(Failure::new("malformed-route-marker", message).with_details(details))
        }
    }
}

/// The fields that the taken route requires, each found once and as required, and none that it forbids.
fn fields(request: &MarkerRequest, route: &str) -> Result<Map<String, Value>, Failure> {
    let text = &request.text;
    let source_labels = request.source_labels(route);
    let source_text = request.source_text.as_deref().unwrap_or_default();
    let mut required = request.required_fields(route);
    for label in source_labels {
        match exact_field(source_text, label) {
            Some(value) => _ = required.insert(label.clone(), value.to_owned()),
            None => {
                let message = "Required route fields source is missing exact fields";
                return Err(Failure::new("invalid-required-fields-source", message)
                    .with_details(json!({ "field-labels": source_labels })));
            }
        }
    }

    // What another route requires does not belong here either.
    let of_other_routes: BTreeSet<&str> =
        request.all_required_labels().filter(|label| !required.contains_key(*label)).collect();
    let forbidden = of_other_routes.into_iter().chain(request.forbidden_labels(route).iter().map(String::as_str));
    for label in forbidden {
        if !text::field_lines(text, label).is_empty() {
            return Err(Failure::new("unexpected-route-field", format!("{label} field is not valid for this route"))
                .with_details(json!({ "text": text, "field-label": label })));
        }
    }

    let mut fields = Map::new();
    for (label, value) in required {
        let expected = format!("{label}: {value}");
        match text::field_lines(text, &label).as_slice() {
            [] => {
                return Err(Failure::new("missing-route-field", format!("{label} field missing"))
                    .with_details(json!({ "text": text, "field-label": label })));
            }
            [line] if *line == expected => _ = fields.insert(label, value.into()),
            [line] => {
                let message = format!("{label} field does not match the required value");
                let details = json!({ "text": text, "field-label": label, "line": line, "expected-line": expected });
                return Err(Failure::new("mismatched-route-field", message).with_details(details));
            }
            several => {
                let details = json!({ "text": text, "field-label": label, "field-lines": several });
                return Err(Failure::new("ambiguous-route-field", format!("Multiple {label} field lines found"))
                    .with_details(details));
            }
        }
    }
    Ok(fields)
}

/// The value of the one exact line `LABEL: value`, if there is exactly one line that looks like it.
fn exact_field<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    match text::field_lines(text, label).as_slice() {
        [line] => line.strip_prefix(label)?.strip_prefix(": ").filter(|value| !text::is_blank(value)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::exact_marker_routing;
    use opcell_sdk::testing::invoke;
    use opcell_sdk::{Failure, Success};
    use serde_json::{Value, json};

    fn routed(text: &str) -> Result<Success<Value>, Failure> {
        invoke::<exact_marker_routing>(
            &json!({ "text": text, "marker-label": "ROUTE", "allowed-routes": ["FIXED", "CHANGED"] }),
        )
    }

    /// The arguments with the fields of two routes.
    fn with_fields(text: &str) -> Result<Success<Value>, Failure> {
        invoke::<exact_marker_routing>(&json!({
            "text": text,
            "marker-label": "ROUTE",
            "allowed-routes": ["FIXED", "CHANGED"],
            "required-fields-by-route": { "FIXED": { "COMMIT": "abc" } },
            "required-field-labels-by-route": { "CHANGED": ["REASON"] },
            "required-fields-source-text": "intro\nREASON: it moved\n",
            "forbidden-field-labels-by-route": { "FIXED": ["NOTE"] },
        }))
    }

    #[test]
    fn one_exact_marker_is_the_route() {
        let success = routed("All done.\nROUTE: FIXED\nROUTER: no\nMY ROUTE: no").unwrap();

        assert_eq!((success.data, success.summary, success.details), (json!("FIXED"), Some("FIXED".to_owned()), None));
    }

    #[test]
    fn no_marker_and_several_markers_are_different_failures() {
        let missing = routed("nothing").unwrap_err();
        assert_eq!(
            (missing.reason.as_str(), missing.message.as_str()),
            ("missing-route-marker", "ROUTE marker missing")
        );

        let several = routed("ROUTE: FIXED\n ROUTE: CHANGED\nROUTE: OTHER").unwrap_err();
        assert_eq!(several.reason, "ambiguous-route-marker");
        let candidates = several.details.unwrap()["route-marker-candidates"].clone();
        assert_eq!(
            candidates,
            json!([
                { "kind": "exact", "line": "ROUTE: FIXED", "route": "FIXED" },
                { "kind": "malformed", "line": " ROUTE: CHANGED", "reason": "leading-whitespace" },
                { "kind": "unsupported", "line": "ROUTE: OTHER", "value": "OTHER" },
            ])
        );
    }

    #[test]
    fn a_marker_that_is_not_exact_says_what_is_wrong_with_it() {
        for (line, reason, value) in [
            (" ROUTE: FIXED", "leading-whitespace", None),
            ("ROUTE : FIXED", "whitespace-before-colon", None),
            ("ROUTE:FIXED", "missing-space-after-colon", None),
            ("ROUTE:", "missing-space-after-colon", None),
            ("ROUTE: ", "malformed-route-token", Some("")),
            ("ROUTE:  FIXED", "malformed-route-token", Some(" FIXED")),
            ("ROUTE: fixed", "malformed-route-token", Some("fixed")),
            ("ROUTE: FIXED.", "malformed-route-token", Some("FIXED.")),
        ] {
            let failure = routed(line).unwrap_err();
            let details = failure.details.unwrap();
            assert_eq!(
                (failure.reason.as_str(), details["reason"].as_str()),
                ("malformed-route-marker", Some(reason)),
                "{line}"
            );
            assert_eq!(details.get("value").and_then(Value::as_str), value, "{line}");
        }
    }

    #[test]
    fn a_token_that_is_no_route_is_not_supported() {
        let failure = routed("ROUTE: ELSEWHERE").unwrap_err();

        assert_eq!(failure.reason, "unsupported-route-marker");
        assert_eq!(failure.details.unwrap()["allowed-routes"], json!(["FIXED", "CHANGED"]));
    }

    #[test]
    fn a_route_brings_its_required_fields() {
        let direct = with_fields("ROUTE: FIXED\nCOMMIT: abc").unwrap();
        let sourced = with_fields("ROUTE: CHANGED\nREASON: it moved").unwrap();

        assert_eq!(direct.details, Some(json!({ "fields": { "COMMIT": "abc" } })));
        assert_eq!(sourced.details, Some(json!({ "fields": { "REASON": "it moved" } })));
    }

    #[test]
    fn a_field_that_is_not_as_required_fails_with_its_reason() {
        for (text, reason) in [
            ("ROUTE: FIXED", "missing-route-field"),
            ("ROUTE: FIXED\nCOMMIT: abd", "mismatched-route-field"),
            ("ROUTE: FIXED\n COMMIT: abc", "mismatched-route-field"),
            ("ROUTE: FIXED\nCOMMIT: abc\nCOMMIT : abc", "ambiguous-route-field"),
            ("ROUTE: FIXED\nCOMMIT: abc\nNOTE: x", "unexpected-route-field"),
            ("ROUTE: FIXED\nCOMMIT: abc\nREASON: it moved", "unexpected-route-field"),
            ("ROUTE: CHANGED\nREASON: it moved\nCOMMIT: abc", "unexpected-route-field"),
        ] {
            assert_eq!(with_fields(text).unwrap_err().reason, reason, "{text}");
        }
    }

    #[test]
    fn a_source_without_the_field_is_the_sources_fault() {
        for source in ["", "REASON: ", "REASON: a\nREASON: b", " REASON: a"] {
            let failure = invoke::<exact_marker_routing>(&json!({
                "text": "ROUTE: CHANGED", "marker-label": "ROUTE", "allowed-routes": ["CHANGED"],
                "required-field-labels-by-route": { "CHANGED": ["REASON"] }, "required-fields-source-text": source,
            }))
            .unwrap_err();
            assert_eq!(failure.reason, "invalid-required-fields-source", "{source:?}");
        }
    }
}
