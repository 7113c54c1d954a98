//! The rules of a prompt on its answers and on certain models: `validators`, `model_overrides`, `pipeline` and `media`.
//! What acts here becomes part of the session; what does not is refused with a sentence.

use super::media;
use super::pack::{Parameters, Prompt};
use crate::json::pointer_part;
use indexmap::IndexMap;
use opcell_ir::diagnostic::{Diagnostic, did_you_mean};
use opcell_ir::ir::guard::compile;
use opcell_ir::ir::{Guard, GuardRule, MediaLimits, ModelOverride};
use opcell_types::Value;
use serde::Deserialize;

/// The rules that take effect.
#[derive(Debug, Default)]
pub(super) struct Governed {
    pub(super) guards: Vec<Guard>,
    pub(super) overrides: IndexMap<String, ModelOverride>,
    pub(super) media: Option<MediaLimits>,
}

/// A rule that takes no effect: a finding and its pointer below the prompt.
pub(super) type Refused = (Diagnostic, String);

/// The kinds of validators that are enforced here, with the parameters of each.
const KINDS: [(&str, &[&str]); 6] = [
    ("banned_words", &["words"]),
    ("max_length", &["max_characters", "max_tokens"]),
    ("length", &["max_characters", "max_tokens"]),
    ("max_sentences", &["max_sentences"]),
    ("regex_match", &["pattern", "expect_match"]),
    ("regex", &["pattern", "expect_match"]),
];

/// Parameters of every kind: which way the text goes that is looked at, and what takes its place.
const COMMON: [&str; 2] = ["direction", "message"];

/// Difference of length between a parameter and what was meant by it.
const MAX_LENGTH_DIFFERENCE: usize = 3;

/// Characters that a parameter has in common with the one that it may have been meant as.
const SAME_BEGINNING: usize = 5;

/// Stages that every session goes through, in this order.
const STAGES: [&str; 3] = ["template", "provider", "validator"];

/// Returns `true` unless a validator says that it does nothing.
pub(super) fn is_enabled(validator: &Value) -> bool {
    validator.get("enabled") != Some(&Value::Bool(false))
}

/// Reads it.
pub(super) fn read(key: &str, prompt: &Prompt) -> (Governed, Vec<Refused>) {
    let mut governed = Governed::default();
    let mut refused = Vec::new();
    let rest = |field: &str| prompt.rest.get(field).filter(|value| !value.is_nullish());
    for (index, validator) in rest("validators").and_then(Value::as_array).into_iter().flatten().enumerate() {
        if !is_enabled(validator) {
            continue;
        }
        match guard(validator) {
            Ok(guards) => governed.guards.extend(guards),
            Err((message, help)) => {
                let message = format!("prompts[\"{key}\"].validators[{index}]: {message}");
                refused.push((error("unenforced-validator", message, &help), format!("/validators/{index}")));
            }
        }
    }
    for (model, authored) in rest("model_overrides").and_then(Value::as_object).into_iter().flat_map(|all| all.iter()) {
        match model_override(authored) {
            Ok(found) => drop(governed.overrides.insert(model.to_string(), found)),
            Err(message) => {
                let message = format!("prompts[\"{key}\"].model_overrides[\"{model}\"]: {message}");
                refused
                    .push((error("model-override", message, ""), format!("/model_overrides/{}", pointer_part(model))));
            }
        }
    }
    if let Some(pipeline) = rest("pipeline") {
        refused.extend(check_pipeline(key, pipeline));
    }
    if let Some(media) = rest("media") {
        let (limits, unused) = media::read(media);
        governed.media = limits;
        for pointer in unused {
            let path = pointer.trim_start_matches('/').replace('/', ".");
            let warning = Diagnostic::warning("no-effect", format!("prompts[\"{key}\"].media.{path} has no effect"));
            let help = "these have an effect in image, document and audio: max_size_mb, max_images_per_msg, and \
                        allowed_formats that models are shown";
            refused.push((warning.help(help), format!("/media{pointer}")));
        }
    }
    (governed, refused)
}

fn error(code: &'static str, message: String, help: &str) -> Diagnostic {
    let error = Diagnostic::error(code, message);
    if help.is_empty() { error } else { error.help(help) }
}

fn guard(validator: &Value) -> Result<Vec<Guard>, (String, String)> {
    let kind = validator.get("type").and_then(Value::as_str).unwrap_or_default();
    let Some((_, known)) = KINDS.iter().find(|(name, _)| *name == kind) else {
        let names: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
        let message = format!("a validator of type \"{kind}\" is not enforced here, and would guard nothing");
        // A hint that leads to a rule with the opposite meaning is worse than none.
        let takes_params = |near: &str| {
            let known = KINDS.iter().find(|(name, _)| *name == near).map(|(_, known)| *known).unwrap_or_default();
            let params = validator.get("params").and_then(Value::as_object);
            params.is_none_or(|params| {
                params.keys().all(|key| known.contains(&key.as_ref()) || COMMON.contains(&key.as_ref()))
            })
        };
        let help = match did_you_mean(kind, names.iter().copied()).filter(|near| takes_params(near)) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("there are: {}; `enabled: false` turns it off, an eval only observes", names.join(", ")),
        };
        return Err((message, help));
    };
    let nothing = Value::object::<&str>([]);
    let params = validator.get("params").unwrap_or(&nothing);
    for param in params.as_object().into_iter().flat_map(|params| params.keys()) {
        if !known.contains(&param.as_ref()) && !COMMON.contains(&param.as_ref()) {
            let all: Vec<&str> = known.iter().copied().chain(COMMON).collect();
            // A word that is much longer, or begins otherwise, says more than was written: of characters or tokens, for
            // example.
            let is_near = |near: &&str| {
                near.len().abs_diff(param.len()) <= MAX_LENGTH_DIFFERENCE
                    && near.get(..SAME_BEGINNING) == param.get(..SAME_BEGINNING)
            };
            let near = did_you_mean(param, all.iter().copied()).filter(is_near);
            let help = near
                .map_or_else(|| format!("{kind} takes: {}", all.join(", ")), |near| format!("did you mean {near}?"));
            return Err((format!("{kind} has no parameter \"{param}\""), help));
        }
    }
    // Answers are guarded, and nothing else: a rule for what the user says would not be kept.
    match params.get("direction").filter(|direction| !direction.is_nullish()) {
        None => {}
        Some(direction) if direction.as_str() == Some("output") => {}
        Some(direction) => {
            let message = format!(
                "{kind} with the direction {} is not enforced here: only answers are guarded",
                direction.to_json()
            );
            let help = "use the direction \"output\", check what the user says in a tool, or set `enabled: false`";
            return Err((message, help.to_owned()));
        }
    }
    let count = |param: &str| -> Result<Option<usize>, (String, String)> {
        match params.get(param) {
            None => Ok(None),
            Some(value) => {
                let number =
                    serde_json::Value::from(value).as_u64().and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0);
                number.map(Some).ok_or_else(|| (format!("{param} must be a whole number from 1"), String::new()))
            }
        }
    };
    let required = |param: &str| (format!("{kind} needs the parameter {param}"), String::new());
    let rules = match kind {
        "banned_words" => {
            let words = params.get("words").and_then(Value::as_array).ok_or_else(|| required("words"))?;
            let words: Option<Vec<String>> = words.iter().map(|word| word.as_str().map(str::to_owned)).collect();
            let words = words.ok_or_else(|| required("words"))?;
            if words.iter().all(|word| word.trim().is_empty()) {
                let help = "name the words, or turn it off with `enabled: false`";
                return Err(("banned_words without a word would guard nothing".to_owned(), help.to_owned()));
            }
            vec![GuardRule::BannedWords { words }]
        }
        "max_sentences" => {
            vec![GuardRule::MaxSentences {
                sentences: count("max_sentences")?.ok_or_else(|| required("max_sentences"))?,
            }]
        }
        "regex_match" | "regex" => {
            let pattern = params.get("pattern").and_then(Value::as_str).ok_or_else(|| required("pattern"))?;
            compile(pattern)
                // The library draws the place first, on several lines.
                .map_err(|error| {
                    let error = error.to_string();
                    let problem = error.rsplit("error: ").next().unwrap_or(&error);
                    (format!("pattern is not a regular expression that is read here: {problem}"), String::new())
                })?;
            let expected = match params.get("expect_match").filter(|expected| !expected.is_nullish()) {
                None => true,
                Some(Value::Bool(expected)) => *expected,
                Some(_) => return Err(("expect_match must be true or false".to_owned(), String::new())),
            };
            vec![match expected {
                true => GuardRule::Matches { pattern: pattern.to_owned() },
                false => GuardRule::MatchesNot { pattern: pattern.to_owned() },
            }]
        }
        _ => {
            // About four characters are a token, as everywhere in prompts.
            let tokens = count("max_tokens")?.map(|tokens| tokens.saturating_mul(4));
            let characters = count("max_characters")?.into_iter().chain(tokens).min();
            vec![GuardRule::MaxLength { characters: characters.ok_or_else(|| required("max_characters"))? }]
        }
    };
    let name = validator.get("id").and_then(Value::as_str).unwrap_or(kind).to_owned();
    let message = validator.get("message").or_else(|| params.get("message")).and_then(Value::as_str);
    let message = message.map(str::to_owned);
    Ok(rules.into_iter().map(|rule| Guard { name: name.clone(), rule, message: message.clone() }).collect())
}

fn model_override(authored: &Value) -> Result<ModelOverride, String> {
    let text = |key: &str| -> Result<Option<String>, String> {
        let text = authored.get(key).and_then(Value::as_str);
        match text {
            Some(text) if text.contains("{{") => {
                Err(format!("{key} holds a token, and tokens are only filled in in `system_template`"))
            }
            text => Ok(text.map(str::to_owned)),
        }
    };
    let json = authored.get("parameters").map_or(serde_json::json!({}), serde_json::Value::from);
    let parameters = Parameters::deserialize(&json).map_err(|error| error.to_string())?;
    Ok(ModelOverride {
        prefix: text("system_template_prefix")?,
        suffix: text("system_template_suffix")?,
        system_prompt: text("system_template")?,
        temperature: parameters.temperature,
        generation: parameters.generation(false),
    })
}

/// A pipeline acts as far as it is what every session does: template, provider, validator.
fn check_pipeline(key: &str, pipeline: &Value) -> Vec<Refused> {
    let mut refused = Vec::new();
    let stages = pipeline.get("stages").and_then(Value::as_array).into_iter().flatten();
    let stages: Vec<&str> = stages.filter_map(|stage| stage.as_str()).collect();
    let mut expected = STAGES.iter();
    if !stages.iter().all(|stage| expected.any(|known| known == stage)) {
        let message = format!("prompts[\"{key}\"].pipeline: the stages {} are not run here", stages.join(", "));
        let help = format!("sessions go through {}, in this order", STAGES.join(", "));
        refused.push((error("pipeline", message, &help), "/pipeline/stages".to_owned()));
    }
    let middleware = pipeline.get("middleware").and_then(Value::as_array).into_iter().flatten();
    for (index, entry) in middleware.enumerate() {
        let kind = entry.get("type").and_then(Value::as_str).unwrap_or_default();
        if STAGES.contains(&kind) {
            continue;
        }
        let message = format!("prompts[\"{key}\"].pipeline: middleware \"{kind}\" is not run here");
        refused.push((
            error("pipeline", message, "leave it out, or do its work in a tool"),
            format!("/pipeline/middleware/{index}"),
        ));
    }
    refused
}
