//! Signatures of webhooks' requests, and the keys that they are made with.

use axum::http::HeaderMap;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::Timestamp;
use opcell::triggers::{Signature, Webhook};
use sha2::{Digest as _, Sha256};

/// The longest ID of a webhook's request, in bytes.
const MAX_ID: usize = 200;

/// Signatures of one request that are looked at.
const MAX_SIGNATURES: usize = 8;

/// Bytes of a key that is read out of Base64 without a prefix that says so: what is shorter is a text.
const MIN_DECODED_KEY: usize = 16;

/// The keys that a secret may stand for; none for an empty one. Standard Webhooks write them in Base64, after a prefix
/// or without one: then it is a key as text as well, as senders have it that do not follow their library.
pub(super) fn keys_of(signature: Signature, secret: &str) -> Vec<Vec<u8>> {
    let text = || Some(secret.as_bytes().to_vec()).filter(|key| !key.is_empty());
    match (signature, secret.strip_prefix("whsec_")) {
        (Signature::Standard, Some(encoded)) => match STANDARD.decode(encoded) {
            Ok(key) => Some(key).filter(|key| !key.is_empty()).into_iter().collect(),
            Err(_) => text().into_iter().collect(),
        },
        (Signature::Standard, None) => {
            let decoded = STANDARD.decode(secret).ok().filter(|key| key.len() >= MIN_DECODED_KEY);
            text().into_iter().chain(decoded).collect()
        }
        _ => text().into_iter().collect(),
    }
}

/// The key of a request that one of the secrets signs: the same for the same request sent again.
pub(super) fn verify(
    webhook: &Webhook,
    secrets: &[Vec<u8>],
    headers: &HeaderMap,
    body: &[u8],
    now: Timestamp,
) -> Result<String, &'static str> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    match webhook.signature {
        Signature::Standard => {
            // Svix, whose scheme the standard is, sends its own names.
            let names = match headers.contains_key("webhook-id") {
                true => ["webhook-id", "webhook-timestamp", "webhook-signature"],
                false => ["svix-id", "svix-timestamp", "svix-signature"],
            };
            let [id, sent, signatures] = names.map(header);
            let id = id.ok_or("no `webhook-id`")?;
            let sent = sent.ok_or("no `webhook-timestamp`")?;
            let signatures = signatures.ok_or("no `webhook-signature`")?;
            if id.is_empty() || id.len() > MAX_ID {
                return Err("an ID of no or too many bytes");
            }
            // The signed text has a dot after each: with more of them, a part of the time or the body would be the ID's.
            if id.contains('.') {
                return Err("an ID with a dot");
            }
            let is_plain = sent.bytes().all(|byte| byte.is_ascii_digit()) && !(sent.len() > 1 && sent.starts_with('0'));
            let at = is_plain.then_some(sent).and_then(|sent| Timestamp::from_second(sent.parse().ok()?).ok());
            let off = at.ok_or("a timestamp that is not one")?.duration_since(now).unsigned_abs();
            if off > webhook.window {
                return Err("a timestamp outside of the window");
            }
            let given: Vec<Vec<u8>> = signatures
                .split(' ')
                .filter_map(|signature| STANDARD.decode(signature.strip_prefix("v1,")?).ok())
                .take(MAX_SIGNATURES)
                .collect();
            let signed = [id.as_bytes(), b".", sent.as_bytes(), b".", body];
            is_signed(secrets, &signed, &given).then(|| digest(id.as_bytes())).ok_or("a wrong signature")
        }
        Signature::Github => {
            let signature = header("x-hub-signature-256").ok_or("no `x-hub-signature-256`")?;
            let given = signature.strip_prefix("sha256=").and_then(unhex).ok_or("a signature that is not one")?;
            is_signed(secrets, &[body], &[given]).then(|| digest(body)).ok_or("a wrong signature")
        }
        _ => Err("a way of signing that this server does not know"),
    }
}

pub(super) fn sign(secret: &[u8], parts: &[&[u8]]) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).ok()?;
    parts.iter().for_each(|part| mac.update(part));
    Some(mac)
}

/// Returns `true` if any secret gives any of the signatures; compared in constant time.
fn is_signed(secrets: &[Vec<u8>], parts: &[&[u8]], given: &[Vec<u8>]) -> bool {
    secrets.iter().any(|secret| {
        let mac = sign(secret, parts);
        mac.is_some_and(|mac| given.iter().any(|given| mac.clone().verify_slice(given).is_ok()))
    })
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let bytes = text.as_bytes().chunks(2);
    bytes.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok().filter(|_| pair.len() == 2)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcell::http::SecretSource;

    const BODY: &[u8] = br#"{"n":1}"#;

    fn webhook(signature: Signature) -> Webhook {
        Webhook::new(signature, vec![SecretSource::Env("NONE".to_owned())])
    }

    fn now() -> Timestamp {
        Timestamp::from_second(1_700_000_000).unwrap()
    }

    fn standard(secret: &[u8], id: &str, at: i64, body: &[u8]) -> HeaderMap {
        let at = at.to_string();
        let mac = sign(secret, &[id.as_bytes(), b".", at.as_bytes(), b".", body]).unwrap();
        let signature = format!("v1,AAAA v2,ignored v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
        let headers = [("webhook-id", id), ("webhook-timestamp", &at), ("webhook-signature", &signature)];
        headers.into_iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn a_request_is_taken_with_any_of_the_secrets_and_no_other() {
        let hook = webhook(Signature::Standard);
        let secrets = [b"new".to_vec(), b"old".to_vec()];
        let verified = |secret: &[u8], body: &[u8]| {
            verify(&hook, &secrets, &standard(secret, "m1", 1_700_000_000, BODY), body, now())
        };
        assert_eq!(verified(b"new", BODY), verified(b"old", BODY));
        assert!(verified(b"new", BODY).is_ok());
        assert_eq!(verified(b"other", BODY), Err("a wrong signature"));
        assert_eq!(verified(b"new", br#"{"n":2}"#), Err("a wrong signature"));
        assert_eq!(
            verify(&hook, &[], &standard(b"", "m1", 1_700_000_000, BODY), BODY, now()),
            Err("a wrong signature")
        );
    }

    #[test]
    fn a_request_from_outside_of_the_window_is_refused() {
        let hook = webhook(Signature::Standard);
        let verified = |at| verify(&hook, &[b"s".to_vec()], &standard(b"s", "m1", at, BODY), BODY, now());
        assert!(verified(1_700_000_000 - 300).is_ok() && verified(1_700_000_000 + 300).is_ok());
        for at in [1_700_000_000 - 301, 1_700_000_000 + 301, i64::MAX, i64::MIN] {
            assert!(verified(at).is_err(), "{at}");
        }
    }

    #[test]
    fn the_parts_of_a_signed_text_cannot_be_moved() {
        let hook = webhook(Signature::Standard);
        let own = standard(b"s", "m1", 1_700_000_000, b"T.{}");
        let verified = |headers: &HeaderMap, body| verify(&hook, &[b"s".to_vec()], headers, body, now());
        assert!(verified(&own, b"T.{}").is_ok());
        for (name, value) in [("webhook-id", "m1.1700000000"), ("webhook-timestamp", "+1700000000")] {
            let mut headers = own.clone();
            headers.insert(name, value.parse().unwrap());
            assert_ne!(verified(&headers, b"{}"), Err("a wrong signature"), "{value}");
            assert!(verified(&headers, b"{}").is_err(), "{value}");
        }
    }

    #[test]
    fn the_same_request_has_the_same_key_and_another_id_another() {
        let hook = webhook(Signature::Standard);
        let key = |id, at| verify(&hook, &[b"s".to_vec()], &standard(b"s", id, at, BODY), BODY, now()).unwrap();
        assert_eq!(key("m1", 1_700_000_000), key("m1", 1_700_000_100));
        assert_ne!(key("m1", 1_700_000_000), key("m2", 1_700_000_000));
    }

    /// The example of GitHub's documentation.
    #[test]
    fn githubs_own_example_is_taken() {
        let mut headers = HeaderMap::new();
        let signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        headers.insert("x-hub-signature-256", signature.parse().unwrap());
        let hook = webhook(Signature::Github);
        let secrets = [b"It's a Secret to Everybody".to_vec()];
        assert!(verify(&hook, &secrets, &headers, b"Hello, World!", now()).is_ok());
        assert_eq!(verify(&hook, &secrets, &headers, b"Hello, World?", now()), Err("a wrong signature"));
        for wrong in ["sha256=", "sha256=75", "757107ea", "sha256=zz"] {
            headers.insert("x-hub-signature-256", wrong.parse().unwrap());
            assert!(verify(&hook, &secrets, &headers, b"Hello, World!", now()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_secret_may_be_written_as_standard_webhooks_do() {
        let keys = |secret: &str| keys_of(Signature::Standard, secret);
        assert_eq!(keys("whsec_AQID"), [vec![1, 2, 3]]);
        assert_eq!(keys("plain"), [b"plain".to_vec()]);
        let text = "AQIDBAUGBwgJCgsMDQ4PEA==";
        assert_eq!(keys(text), [text.as_bytes().to_vec(), (1..=16).collect()]);
        assert_eq!(keys_of(Signature::Github, "whsec_AQID"), [b"whsec_AQID".to_vec()]);
        assert_eq!(keys("whsec_not base64"), [b"whsec_not base64".to_vec()]);
        for empty in ["", "whsec_"] {
            assert!(keys(empty).is_empty(), "{empty}");
        }
    }

    #[test]
    fn svix_names_are_taken_as_a_whole() {
        let hook = webhook(Signature::Standard);
        let headers = standard(b"s", "m1", 1_700_000_000, BODY);
        let renamed = |from: &[&str]| -> HeaderMap {
            let name = |name: &str| match from.contains(&name) {
                true => name.replace("webhook", "svix").parse().unwrap(),
                false => name.parse().unwrap(),
            };
            headers.iter().map(|(key, value)| (name(key.as_str()), value.clone())).collect()
        };
        let verified = |headers: &HeaderMap| verify(&hook, &[b"s".to_vec()], headers, BODY, now());
        let all = renamed(&["webhook-id", "webhook-timestamp", "webhook-signature"]);
        assert_eq!(verified(&all), verified(&headers));
        assert_eq!(verified(&renamed(&["webhook-timestamp"])), Err("no `webhook-timestamp`"));
        assert!(verified(&renamed(&["webhook-id"])).is_err());
    }
}
