//! A request that got no answer: the reason, and the remedies.

use super::Answer;
use super::fault_forms::canonical;
use opcell_types::Value;
use serde_json::Value as Json;
use std::borrow::Cow;
use std::time::Duration;

/// A request that got no answer.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) struct Fault {
    pub reason: &'static str,
    /// The fault, in the provider's words where it has any.
    pub said: String,
    /// True if the same request may succeed soon.
    pub repeat: bool,
    /// True if another model, or another attempt of the step, may succeed.
    pub retriable: bool,
    /// The status of the response, where it was not a success.
    pub status: Option<u16>,
    /// The wait that the provider asks for.
    pub wait: Option<Duration>,
    /// True if the sentence names the model already.
    pub is_of_answer: bool,
    pub details: Option<Value>,
}

impl Fault {
    fn new(reason: &'static str, said: impl Into<String>, repeat: bool) -> Self {
        let said = said.into();
        Self { reason, said, repeat, retriable: repeat, status: None, wait: None, is_of_answer: false, details: None }
    }

    /// The provider cannot answer now.
    pub(in super::super) fn unavailable(said: impl Into<String>) -> Self {
        Fault::new("provider-unavailable", said, true)
    }

    /// The body is not an answer. Models and servers slip, so that it is worth another request.
    pub(in super::super) fn malformed(said: impl Into<String>) -> Self {
        let said = said.into();
        Fault::new("malformed-reply", format!("its answer is malformed: {said}"), true)
    }

    /// The body is a stream of Bedrock's own form, which is none of the protocols.
    pub(in super::super) fn foreign_stream() -> Self {
        Self::refused(
            "it answers with Amazon's own event stream (`application/vnd.amazon.eventstream`), which is not among the \
             protocols of `api`; set `base-url` to an endpoint of Bedrock that speaks chat completions or messages, or \
             to a gateway",
        )
    }

    /// The body is text in another charset than UTF-8, and will be again.
    pub(in super::super) fn foreign_text(charset: &str) -> Self {
        let said = format!(
            "it is text in {charset}, and JSON is sent in UTF-8; configure the server, or the gateway before it, to send \
             UTF-8"
        );
        Self { repeat: false, ..Self::malformed(said) }
    }

    /// The body ended within the answer.
    pub(in super::super) fn cut() -> Self {
        Self::unavailable("its answer ended before it was complete")
    }

    /// The answer is larger than any that a model writes.
    pub(in super::super) fn too_large() -> Self {
        let limit = super::MAX_ANSWER_BYTES >> 20;
        Self {
            retriable: true,
            ..Fault::new("answer-too-large", format!("its answer has more than {limit} MiB"), false)
        }
    }

    /// The request did not suit the provider.
    pub(in super::super) fn refused(said: impl Into<String>) -> Self {
        Fault::new("request-refused", said, false)
    }

    /// An answer that is not one; the sentence names the model.
    pub(in super::super) fn of_answer(reason: &'static str, said: String) -> Self {
        Self { is_of_answer: true, ..Fault::new(reason, said, false) }
    }

    /// With what was answered so far, for people.
    pub(super) fn with_answer(mut self, answer: Answer) -> Self {
        let count = |tokens: u64| Value::from(i64::try_from(tokens).unwrap_or(i64::MAX));
        self.details = Some(Value::object([
            ("text", Value::from(answer.text)),
            ("input-tokens", count(answer.tokens.input)),
            ("output-tokens", count(answer.tokens.output)),
        ]));
        self
    }

    /// A response with a status that is not a success.
    pub(in super::super) fn of_status(status: u16, said: String) -> Self {
        let (reason, repeat) = of_status(status);
        Self { status: Some(status), ..Self::new(reason, said, repeat) }
    }
}

fn of_status(status: u16) -> (&'static str, bool) {
    match status {
        401 | 403 => ("unauthorized", false),
        429 => ("rate-limited", true),
        // 498 is Groq's for a tier without capacity.
        408 | 409 | 425 | 498 | 500..=599 => ("provider-unavailable", true),
        _ => ("request-refused", false),
    }
}

/// The error that a document is, if it is one. `has_answer`: whether it has the fields of an answer too, so that what
/// merely looks like an error is none.
pub(in super::super) fn error_in(document: &Json, event: Option<&str>, has_answer: bool) -> Option<Fault> {
    let document = &*if has_answer { Cow::Borrowed(document) } else { canonical(document) };
    let is_named = document["type"] == "error" || document["object"] == "error" || event == Some("error");
    let body = match &document["error"] {
        Json::Null | Json::Bool(false) => None,
        Json::String(text) if text.is_empty() => None,
        // Servers that write every field leave an error without contents beside an answer.
        error if has_answer && says_nothing(error) => None,
        error => Some(error),
    };
    let is_error = match body {
        Some(_) => true,
        None if is_named => true,
        None if has_answer => false,
        None => {
            let failed = &document["base_resp"]["status_code"];
            failed.as_i64().is_some_and(|code| code != 0)
                || ["ok", "success"].iter().any(|key| document[*key] == false)
                || document["errors"].as_array().is_some_and(|errors| !errors.is_empty())
                || ["message", "detail", "msg", "error_msg", "error_message", "errorMessage"]
                    .iter()
                    .any(|key| matches!(&document[*key], Json::String(_) | Json::Array(_)))
        }
    };
    if !is_error {
        return None;
    }
    let words = words_of(document).filter(|words| !words.trim().is_empty()).unwrap_or_else(|| document.to_string());
    let body = body.unwrap_or(document);
    let codes = [
        "code",
        "status",
        "type",
        "status_code",
        "statusCode",
        "http_status",
        "http_code",
        "error_code",
        "error_type",
        "__type",
    ];
    // Azure's own code is the finer one.
    let mut marks = vec![&body["innererror"]["code"]];
    marks.extend(codes.iter().map(|key| &body[*key]));
    marks.extend(codes.iter().map(|key| &document[*key]));
    marks.push(&document["base_resp"]["status_code"]);
    marks.push(&body["metadata"]["error_type"]);
    let details = || body["details"].as_array().into_iter().flatten();
    marks.extend(details().map(|detail| &detail["reason"]));
    let status = marks.iter().find_map(|mark| {
        let number = mark.as_u64().or_else(|| mark.as_str()?.trim().parse().ok())?;
        u16::try_from(number).ok().filter(|status| (400..600).contains(status))
    });
    let is_flagged = body["metadata"]["flagged_input"].is_string();
    let by_word = is_flagged
        .then_some(("answer-refused", false))
        .or_else(|| of_minimax(document["base_resp"]["status_code"].as_i64()?))
        .or_else(|| of_zhipu(body["code"].as_str()?))
        .or_else(|| marks.iter().filter_map(|mark| mark.as_str()).find_map(of_word));
    // The word is the finer one: 429 is a rate or an empty account.
    let (mut reason, mut repeat) =
        by_word.or(status.map(of_status)).or_else(|| of_sentence(&words)).unwrap_or(("provider-unavailable", true));
    // Most providers have a word for a request that does not suit, and only their sentence says that it is too long.
    if reason == "request-refused" && is_full(&words) {
        (reason, repeat) = ("context-full", false);
    }
    if reason == "request-refused" && is_of_key(&words) {
        reason = "unauthorized";
    }
    if reason == "request-refused" && is_filtered(&words) {
        reason = "answer-refused";
    }
    let mut fault = Fault::new(reason, words, repeat);
    fault.retriable |= reason == "context-full";
    fault.wait = details().find_map(|detail| seconds(&detail["retryDelay"]));
    Some(fault)
}

/// Returns `true` if an error has no contents.
fn says_nothing(error: &Json) -> bool {
    let is_nothing = |value: &Json| match value {
        Json::Null | Json::Bool(false) => true,
        Json::Number(number) => number.as_f64() == Some(0.0),
        Json::String(text) => matches!(text.trim(), "" | "null"),
        Json::Array(items) => items.is_empty(),
        Json::Object(entries) => entries.is_empty(),
        Json::Bool(true) => false,
    };
    is_nothing(error) || error.as_object().is_some_and(|entries| entries.values().all(is_nothing))
}

/// The meaning of a status of MiniMax, which says them in a success.
fn of_minimax(status: i64) -> Option<(&'static str, bool)> {
    Some(match status {
        1001 | 1000 | 1013 | 1024 | 1033 => ("provider-unavailable", true),
        1002 | 1039 => ("rate-limited", true),
        1004 | 2049 => ("unauthorized", false),
        1008 | 2013 => ("request-refused", false),
        1026 | 1027 => ("answer-refused", false),
        _ => return None,
    })
}

/// The meaning of a code of Zhipu, a number as a text.
fn of_zhipu(code: &str) -> Option<(&'static str, bool)> {
    Some(match code {
        "1301" => ("answer-refused", false),
        "1302" | "1303" | "1304" | "1305" | "1308" => ("rate-limited", true),
        "1000" | "1001" | "1002" | "1003" | "1004" | "1110" | "1112" => ("unauthorized", false),
        "1113" | "1210" | "1211" | "1212" | "1213" | "1214" => ("request-refused", false),
        "1230" | "1234" => ("provider-unavailable", true),
        "1261" => ("context-full", false),
        _ => return None,
    })
}

/// A wait such as `"36s"`, as Google's errors have it.
fn seconds(delay: &Json) -> Option<Duration> {
    let seconds = delay.as_str()?.strip_suffix('s')?.parse::<f64>().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// The meaning of an error's type, code or status.
fn of_word(word: &str) -> Option<(&'static str, bool)> {
    let word = super::end::snake_case(word);
    let has = |parts: &[&str]| parts.iter().any(|part| word.contains(part));
    Some(match () {
        () if has(&["context_length", "context_window", "prompt_too_long", "exceed_context"]) => {
            ("context-full", false)
        }
        // A slip of the model, which its provider could not read: another answer may be fine.
        () if has(&["tool_use_failed", "json_validate_failed", "output_parse_failed", "malformed_function"]) => {
            ("malformed-reply", true)
        }
        () if has(&["insufficient_quota", "billing", "payment", "credit", "insufficient_balance"]) => {
            ("request-refused", false)
        }
        () if has(&["content_filter", "content_policy", "moderation", "safety", "policy_violation"]) => {
            ("answer-refused", false)
        }
        () if has(&[
            "rate_limit",
            "ratelimit",
            "request_limit",
            "too_many",
            "resource_exhausted",
            "throttl",
            "quota",
        ]) =>
        {
            ("rate-limited", true)
        }
        () if has(&[
            "authentication",
            "unauthenticated",
            "unauthorized",
            "permission",
            "api_key",
            "forbidden",
            "access_denied",
            "unrecognized_client",
        ]) =>
        {
            ("unauthorized", false)
        }
        () if has(&[
            "overload",
            "unavailable",
            "server_error",
            "internal",
            "timeout",
            "timed_out",
            "api_error",
            "capacity",
            "deadline",
            "gateway",
            "busy",
            "network",
            "upstream",
        ]) =>
        {
            ("provider-unavailable", true)
        }
        () if has(&["invalid", "not_found", "bad_request", "unsupported", "validation", "too_large"]) => {
            ("request-refused", false)
        }
        () => return None,
    })
}

/// Returns `true` if an error's sentence says that the conversation does not fit the model's context.
fn is_full(words: &str) -> bool {
    const SAID: [&str; 15] = [
        "context length",
        "context window",
        "context size",
        "context limit",
        "maximum context",
        "prompt is too long",
        "input is too long",
        "prompt too long",
        "input token count",
        "too many input tokens",
        "maximum prompt length",
        "exceeds the maximum number of tokens",
        "number of tokens exceeded",
        "contextwindowexceeded",
        "tokens + `max_new_tokens`",
    ];
    let words = words.to_ascii_lowercase();
    let has = |part: &str| words.contains(part);
    // Of a rate the same is said with the time that it is for.
    let is_rate = ["wait", "per minute", "per day", "try again"].into_iter().any(has);
    SAID.iter().any(|said| has(said))
        || has("must have less than") && has("tokens")
        || has("too many tokens") && !is_rate
}

/// Returns `true` if an error's sentence says that the key is none.
fn is_of_key(words: &str) -> bool {
    let words = words.to_ascii_lowercase();
    let said = [
        "api key not valid",
        "invalid api key",
        "incorrect api key",
        "api key is invalid",
        "api key expired",
        "access token invalid",
        "token seems invalid",
    ];
    said.iter().any(|said| words.contains(said))
}

/// Returns `true` if an error's sentence says that a filter stopped the prompt or the answer.
fn is_filtered(words: &str) -> bool {
    let words = words.to_ascii_lowercase();
    ["content filter", "content management policy", "content policy", "safety system"]
        .iter()
        .any(|said| words.contains(said))
}

/// The meaning of an error's sentence, for errors without a type, code or status.
fn of_sentence(words: &str) -> Option<(&'static str, bool)> {
    let words = words.to_ascii_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| words.contains(part));
    let is_rate = ["rate limit", "rate-limit", "request limit", "too many requests", "too many tokens"];
    Some(match () {
        () if has(&is_rate) && !is_full(&words) => ("rate-limited", true),
        () if has(&["overload", "try again", "temporarily", "unavailable", "timed out", "timeout", "capacity"]) => {
            ("provider-unavailable", true)
        }
        () if is_full(&words) => ("context-full", false),
        () if is_of_key(&words) => ("unauthorized", false),
        () if has(&["api key", "api_key", "unauthorized", "not authorized", "authentication"]) => {
            ("unauthorized", false)
        }
        () if has(&["does not exist", "no such model", "model not found", "not supported", "invalid"]) => {
            ("request-refused", false)
        }
        () => return None,
    })
}

/// The sentence of an error, wherever a provider puts it.
pub(in super::super) fn words_of(document: &Json) -> Option<String> {
    const KEYS: [&str; 11] = [
        "message",
        "detail",
        "msg",
        "error_msg",
        "error_message",
        "errorMessage",
        "status_msg",
        "title",
        "description",
        "reason",
        "error",
    ];
    let mut at = document;
    let mut outer: Option<String> = None;
    for _ in 0..6 {
        let next = match at {
            Json::String(text) if !text.trim().is_empty() => {
                // Gateways pass on an error as the text of another.
                return Some(with_status(document, outer, text.trim()));
            }
            Json::Array(items) => items.first()?,
            Json::Object(entries) => {
                let inner = ["error", "errors", "base_resp", "response"].iter().filter_map(|key| entries.get(*key));
                let mut inner =
                    inner.filter(|value| matches!(value, Json::Object(_) | Json::Array(_) | Json::String(_)));
                let said = KEYS.iter().filter_map(|key| entries.get(*key)).find(|value| {
                    matches!(value, Json::String(text) if !text.trim().is_empty())
                        || value.is_array()
                        || value.is_object()
                });
                if outer.is_none() {
                    outer = entries
                        .get("metadata")
                        .and_then(|more| more.get("raw"))
                        .and_then(Json::as_str)
                        .map(str::to_owned);
                }
                match (inner.next(), said) {
                    (Some(Json::Object(_) | Json::Array(_)), _) => entries
                        .get("error")
                        .or_else(|| entries.get("errors"))
                        .or_else(|| entries.get("base_resp"))
                        .or_else(|| entries.get("response"))?,
                    (_, Some(said)) => said,
                    (Some(text), None) => text,
                    (None, None) => {
                        return entries
                            .get("type")
                            .or_else(|| entries.get("code"))
                            .or_else(|| entries.get("status"))
                            .or_else(|| entries.get("__type"))
                            .and_then(Json::as_str)
                            .map(str::to_owned);
                    }
                }
            }
            _ => return None,
        };
        at = next;
    }
    None
}

/// The sentence with the type of the error, and with what the gateway was told.
fn with_status(document: &Json, raw: Option<String>, text: &str) -> String {
    let body = if document["error"].is_object() { &document["error"] } else { document };
    let kind = ["type", "status", "code"].iter().find_map(|key| match &body[*key] {
        Json::String(kind) if kind != "error" && !kind.is_empty() => Some(kind.clone()),
        Json::Number(code) => Some(code.to_string()),
        _ => None,
    });
    let kind = kind.filter(|kind| !text.contains(kind.as_str()));
    let mut said = text.to_owned();
    if let Some(kind) = kind {
        said = format!("{said} ({kind})");
    }
    if let Some(raw) = raw.filter(|raw| !raw.is_empty() && !text.contains(raw.as_str())) {
        said = format!("{said}: {raw}");
    }
    said
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use serde_json::json;

    #[test]
    fn errors_of_every_shape_are_read_with_their_words_and_what_may_be_done() {
        for (document, reason, repeat, part) in [
            (
                json!({"error": {"message": "upstream is overloaded", "code": 503}}),
                "provider-unavailable",
                true,
                "upstream is overloaded",
            ),
            (json!({"error": "Internal failure"}), "provider-unavailable", true, "Internal failure"),
            (
                json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
                "provider-unavailable",
                true,
                "Overloaded",
            ),
            (
                json!({"type": "error", "code": "rate_limit_exceeded", "message": "slow down", "param": null}),
                "rate-limited",
                true,
                "slow down",
            ),
            (
                json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "quota of the minute"}}),
                "rate-limited",
                true,
                "quota of the minute",
            ),
            (
                json!({"error": {"code": "insufficient_quota", "message": "no money"}}),
                "request-refused",
                false,
                "no money",
            ),
            (json!({"error": {"code": 401, "message": "bad key"}}), "unauthorized", false, "bad key"),
            (
                json!({"error": {"message": "This model's maximum context length is 8192 tokens"}}),
                "context-full",
                false,
                "8192",
            ),
            (json!({"error": {"code": 400, "message": "no such field"}}), "request-refused", false, "no such field"),
            (json!({"detail": "Not Found"}), "provider-unavailable", true, "Not Found"),
            (json!({"detail": [{"msg": "field required"}]}), "provider-unavailable", true, "field required"),
            (
                json!({"object": "error", "message": "the model `x` does not exist", "code": 404}),
                "request-refused",
                false,
                "does not exist",
            ),
            (
                json!({"base_resp": {"status_code": 1002, "status_msg": "rate limit"}}),
                "rate-limited",
                true,
                "rate limit",
            ),
            (json!({"errors": [{"message": "first"}, {"message": "second"}]}), "provider-unavailable", true, "first"),
            (
                json!({"error": {"message": "Provider returned error", "code": 502, "metadata": {"raw": "upstream died"}}}),
                "provider-unavailable",
                true,
                "upstream died",
            ),
            (json!({"error": {"code": "server_error"}}), "provider-unavailable", true, "server_error"),
            (json!({"error": {}}), "provider-unavailable", true, "error"),
            (
                json!({"Response": {"Error": {"Code": "RequestLimitExceeded", "Message": "slower"}, "RequestId": "r"}}),
                "rate-limited",
                true,
                "slower",
            ),
            (json!({"__type": "ThrottlingException", "Message": "wait"}), "rate-limited", true, "wait"),
            (
                json!({"Output": {"__type": "com.amazon.coral.service#UnrecognizedClientException"}}),
                "unauthorized",
                false,
                "UnrecognizedClient",
            ),
            (
                json!({"fault": {"faultstring": "Quota exceeded", "detail": {"errorcode": "policies.ratelimit.Q"}}}),
                "rate-limited",
                true,
                "Quota exceeded",
            ),
            (json!({"detail": {"error": "model overloaded"}}), "provider-unavailable", true, "model overloaded"),
            (json!({"errors": {"code": "rate_limit_exceeded", "message": "slow"}}), "rate-limited", true, "slow"),
            (
                json!({"errors": [{"code": "token_quota_reached", "message": "no more"}], "status_code": 403}),
                "rate-limited",
                true,
                "no more",
            ),
            (json!({"ok": false, "description": "Bad gateway"}), "provider-unavailable", true, "Bad gateway"),
            (json!({"success": false}), "provider-unavailable", true, "success"),
            (json!({"message": "Too many tokens, please wait before trying again."}), "rate-limited", true, "wait"),
            (json!({"error": {"code": "1301", "message": "敏感内容"}}), "answer-refused", false, "敏感"),
            (json!({"error": {"code": "1302", "message": "并发"}}), "rate-limited", true, "并发"),
            (
                json!({"error": {"type": "invalid_request_error", "message": "Output blocked by content filtering policy"}}),
                "answer-refused",
                false,
                "blocked",
            ),
            (
                json!({"error": {"type": "invalid_request_error", "message": "x",
                    "innererror": {"code": "ResponsibleAIPolicyViolation"}}}),
                "answer-refused",
                false,
                "x",
            ),
            (
                json!({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "API key expired.",
                    "details": [{"reason": "API_KEY_INVALID"}]}}),
                "unauthorized",
                false,
                "expired",
            ),
            (json!({"error_code": 110, "error_msg": "Access token invalid"}), "unauthorized", false, "token"),
        ] {
            let fault = error_in(&document, None, false).unwrap_or_else(|| panic!("{document}"));
            assert_eq!((fault.reason, fault.repeat), (reason, repeat), "{document}");
            assert!(fault.said.contains(part), "{document}: {}", fault.said);
        }
        for document in
            [json!({"error": null}), json!({"error": ""}), json!({"id": "x"}), json!({"base_resp": {"status_code": 0}})]
        {
            assert_eq!(error_in(&document, None, false), None, "{document}");
        }
        assert_eq!(error_in(&json!({"choices": [], "message": "ok"}), None, true), None);
    }
}
