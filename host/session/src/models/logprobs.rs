//! Log probabilities of a model's tokens: the requests to providers, and the places in their answers.

use super::config::Api;
use opcell_ir::ir::Session;
use opcell_types::Value;
use serde_json::{Value as Json, json};

/// Returns `true` if a session asks.
pub(super) fn asked(settings: &Session) -> bool {
    settings.logprobs == Some(true)
}

/// Returns `true` if the provider's API has it.
pub(super) fn has(api: Api) -> bool {
    match api {
        Api::OpenaiCompletions | Api::OpenaiResponses | Api::Ollama | Api::Gemini => true,
        Api::AnthropicMessages => false,
    }
}

/// The parameters that ask for it.
pub(super) fn request(api: Api, settings: &Session) -> Option<Json> {
    if !asked(settings) {
        return None;
    }
    let top = settings.top_logprobs;
    match api {
        Api::OpenaiCompletions | Api::Ollama => Some(match top {
            Some(top) => json!({"logprobs": true, "top_logprobs": top}),
            None => json!({"logprobs": true}),
        }),
        Api::OpenaiResponses => {
            Some(json!({"include": ["message.output_text.logprobs"], "top_logprobs": top.unwrap_or(0)}))
        }
        Api::Gemini => Some(json!({"generationConfig": match top {
            Some(top) => json!({"responseLogprobs": true, "logprobs": top}),
            None => json!({"responseLogprobs": true}),
        }})),
        Api::AnthropicMessages => None,
    }
}

/// Reads the answer's log probabilities, as `[{token, logprob, top-logprobs}]`; returns `None` when it has none.
pub(super) fn read(api: Api, body: &Json) -> Option<Value> {
    let tokens: Vec<Json> = match api {
        Api::OpenaiCompletions | Api::Ollama => {
            body.pointer("/choices/0/logprobs/content")?.as_array()?.iter().map(openai).collect()
        }
        Api::OpenaiResponses => {
            let parts =
                body.get("output")?.as_array()?.iter().filter_map(|item| item.get("content")?.as_array()).flatten();
            let tokens = parts.filter_map(|part| part.get("logprobs")?.as_array()).flatten();
            tokens.map(openai).collect()
        }
        Api::Gemini => {
            let result = body.pointer("/candidates/0/logprobsResult")?;
            let top = result.get("topCandidates").and_then(Json::as_array);
            let chosen = result.get("chosenCandidates")?.as_array()?.iter().enumerate();
            let token = |(at, chosen): (usize, &Json)| {
                let others = top.and_then(|top| top.get(at)?.get("candidates")?.as_array());
                let others: Vec<Json> = others.into_iter().flatten().map(gemini).collect();
                let mut token = gemini(chosen);
                if let (Some(token), false) = (token.as_object_mut(), others.is_empty()) {
                    token.insert("top-logprobs".to_owned(), others.into());
                }
                token
            };
            chosen.map(token).collect()
        }
        Api::AnthropicMessages => return None,
    };
    (!tokens.is_empty()).then(|| Value::from(Json::from(tokens)))
}

fn openai(token: &Json) -> Json {
    let mut plain = json!({"token": token.get("token"), "logprob": token.get("logprob")});
    let others = token.get("top_logprobs").and_then(Json::as_array).filter(|others| !others.is_empty());
    if let (Some(others), Some(plain)) = (others, plain.as_object_mut()) {
        let other = |other: &Json| json!({"token": other.get("token"), "logprob": other.get("logprob")});
        plain.insert("top-logprobs".to_owned(), others.iter().map(other).collect());
    }
    plain
}

fn gemini(candidate: &Json) -> Json {
    json!({"token": candidate.get("token"), "logprob": candidate.get("logProbability")})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(top: Option<u32>) -> Session {
        Session { logprobs: Some(true), top_logprobs: top, ..Session::default() }
    }

    #[test]
    fn every_api_that_has_probabilities_is_asked_in_its_own_words() {
        assert_eq!(
            request(Api::OpenaiCompletions, &settings(Some(3))),
            Some(json!({"logprobs": true, "top_logprobs": 3}))
        );
        assert_eq!(request(Api::Ollama, &settings(None)), Some(json!({"logprobs": true})));
        assert_eq!(
            request(Api::Gemini, &settings(Some(2))),
            Some(json!({"generationConfig": {"responseLogprobs": true, "logprobs": 2}}))
        );
        assert_eq!(request(Api::AnthropicMessages, &settings(Some(2))), None);
        assert_eq!(request(Api::OpenaiCompletions, &Session::default()), None, "not asked for");
        assert!(!has(Api::AnthropicMessages) && has(Api::OpenaiResponses));
    }

    #[test]
    fn answers_of_every_api_read_alike() {
        let expected = Value::from(json!([
            {"token": "Hi", "logprob": -0.1, "top-logprobs": [{"token": "Hi", "logprob": -0.1}, {"token": "Ho", "logprob": -2.5}]}
        ]));
        let openai = json!({"token": "Hi", "logprob": -0.1, "bytes": [72, 105],
            "top_logprobs": [{"token": "Hi", "logprob": -0.1, "bytes": null}, {"token": "Ho", "logprob": -2.5}]});
        let completions = json!({"choices": [{"message": {}, "logprobs": {"content": [openai]}}]});
        assert_eq!(read(Api::OpenaiCompletions, &completions), Some(expected.clone()));
        let responses =
            json!({"output": [{"type": "reasoning"}, {"content": [{"type": "output_text", "logprobs": [openai]}]}]});
        assert_eq!(read(Api::OpenaiResponses, &responses), Some(expected.clone()));
        let gemini = json!({"candidates": [{"logprobsResult": {
            "chosenCandidates": [{"token": "Hi", "tokenId": 5, "logProbability": -0.1}],
            "topCandidates": [{"candidates": [{"token": "Hi", "logProbability": -0.1}, {"token": "Ho", "logProbability": -2.5}]}]}}]});
        assert_eq!(read(Api::Gemini, &gemini), Some(expected));
        assert_eq!(
            read(Api::OpenaiCompletions, &json!({"choices": [{"logprobs": null}]})),
            None,
            "a provider that says nothing"
        );
    }
}
