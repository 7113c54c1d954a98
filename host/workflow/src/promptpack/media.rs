//! `media` of a prompt: the limits of the pictures, documents and recordings that its model is shown. What has no
//! effect here is named.

use opcell_ir::ir::{MediaLimit, MediaLimits};
use opcell_types::Value;

/// Formats by the names that packs have for them.
type Formats = &'static [(&'static str, &'static str)];

/// Kinds by the names that packs have for them, with the keys that act and the formats that models are shown.
const KINDS: [(&str, &str, Formats); 3] = [
    (
        "image",
        "max_images_per_msg",
        &[
            ("jpeg", "image/jpeg"),
            ("jpg", "image/jpeg"),
            ("png", "image/png"),
            ("gif", "image/gif"),
            ("webp", "image/webp"),
        ],
    ),
    ("document", "", &[("pdf", "application/pdf")]),
    (
        "audio",
        "",
        &[
            ("wav", "audio/wav"),
            ("mp3", "audio/mpeg"),
            ("flac", "audio/flac"),
            ("ogg", "audio/ogg"),
            ("aiff", "audio/aiff"),
        ],
    ),
];

/// Entries of `media` that say nothing of a kind. `examples` are for the readers of a pack: no runtime sends them.
const NO_KIND: [&str; 3] = ["enabled", "supported_types", "examples"];

/// The limits that a prompt declares, and the pointers below `media` of what has no effect. Without `enabled`, nothing
/// is declared.
pub(super) fn read(media: &Value) -> (Option<MediaLimits>, Vec<String>) {
    if media.get("enabled") != Some(&Value::Bool(true)) {
        return (None, Vec::new());
    }
    let supported = media.get("supported_types").and_then(Value::as_array);
    let is_supported =
        |kind: &str| supported.is_none_or(|supported| supported.iter().any(|name| name.as_str() == Some(kind)));
    let mut unused = Vec::new();
    for (place, name) in supported.into_iter().flatten().enumerate() {
        if !KINDS.iter().any(|(kind, ..)| name.as_str() == Some(kind)) {
            unused.push(format!("/supported_types/{place}"));
        }
    }
    let known = |key: &str| NO_KIND.contains(&key) || KINDS.iter().any(|(kind, ..)| *kind == key);
    let others = media.as_object().into_iter().flatten().filter(|(key, _)| !known(key));
    unused.extend(others.map(|(key, _)| format!("/{key}")));
    let mut limit = |(kind, count, formats): (&str, &str, &[(&str, &str)])| {
        let declared = media.get(kind).unwrap_or(&Value::Null);
        if !is_supported(kind) {
            if !declared.is_nullish() {
                unused.push(format!("/{kind}"));
            }
            return None;
        }
        let mut limit = MediaLimit::default();
        for (key, value) in declared.as_object().into_iter().flatten() {
            let number = match value {
                Value::Number(number) => number.as_u64(),
                _ => None,
            };
            match key.as_ref() {
                "max_size_mb" => limit.max_bytes = number.map(|megabytes| megabytes.saturating_mul(1 << 20)),
                "allowed_formats" => {
                    let mut types = Vec::new();
                    for (place, format) in value.as_array().into_iter().flatten().enumerate() {
                        let name = format.as_str().unwrap_or_default().trim_start_matches('.').to_ascii_lowercase();
                        match formats.iter().find(|(known, media_type)| *known == name || *media_type == name) {
                            Some((_, media_type)) => types.push((*media_type).to_owned()),
                            None => unused.push(format!("/{kind}/allowed_formats/{place}")),
                        }
                    }
                    limit.types = Some(types);
                }
                key if key == count => {
                    limit.max_count = number.map(|number| u32::try_from(number).unwrap_or(u32::MAX));
                }
                other => unused.push(format!("/{kind}/{other}")),
            }
        }
        Some(limit)
    };
    let [image, document, audio] = KINDS;
    let limits = MediaLimits { pictures: limit(image), documents: limit(document), audio: limit(audio) };
    (Some(limits), unused)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test")]

    use super::*;

    fn of(json: &str) -> (Option<MediaLimits>, Vec<String>) {
        read(&Value::from_json(json).unwrap())
    }

    #[test]
    fn limits_are_read_and_whatever_has_no_effect_is_named() {
        let (limits, unused) = of(r#"{"enabled": true, "supported_types": ["image", "document", "video"],
                "image": {"max_size_mb": 2, "allowed_formats": ["JPG", ".png", "tiff"], "max_images_per_msg": 3,
                    "default_detail": "high", "require_caption": true},
                "document": {"max_pages": 4}, "audio": {"max_size_mb": 1}, "video": {"max_size_mb": 9},
                "examples": [{"name": "e", "role": "user", "parts": [{"type": "text", "text": "x"}]}]}"#);
        let pictures = MediaLimit {
            max_bytes: Some(2 << 20),
            types: Some(vec!["image/jpeg".to_owned(), "image/png".to_owned()]),
            max_count: Some(3),
        };
        let limits = limits.unwrap();
        assert_eq!(limits.pictures, Some(pictures));
        assert_eq!((limits.documents, limits.audio), (Some(MediaLimit::default()), None));
        let expected = [
            "/supported_types/2",
            "/video",
            "/image/allowed_formats/2",
            "/image/default_detail",
            "/image/require_caption",
            "/document/max_pages",
            "/audio",
        ];
        assert_eq!(unused, expected);
    }

    #[test]
    fn media_that_is_not_enabled_limits_nothing_and_no_types_are_all() {
        assert_eq!(of(r#"{"enabled": false, "image": {"max_size_mb": 1}}"#), (None, Vec::new()));
        let all = Some(MediaLimit::default());
        let limits = MediaLimits { pictures: all.clone(), documents: all.clone(), audio: all };
        assert_eq!(of(r#"{"enabled": true}"#), (Some(limits), Vec::new()));
    }
}
