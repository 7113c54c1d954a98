//! Pictures that tools show to models: checked by their bytes before a provider is sent them.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use imagesize::ImageType;
use opcell_engine::conversation::{Picture, blocks, with_blocks};
use opcell_types::{
    Value,
    text::{one_line, printable},
};

/// The most bytes of one picture: with base64, what the strictest provider takes.
pub(crate) const MAX_PICTURE_BYTES: usize = 3_750 << 10;

/// The most pictures of one result.
const MAX_PICTURES: usize = 8;

/// The most pixels of one side.
const MAX_SIDE: usize = 8_000;

/// The format of a picture, by its bytes.
fn mime_type(bytes: &[u8]) -> Option<&'static str> {
    match imagesize::image_type(bytes).ok()? {
        ImageType::Png => Some("image/png"),
        ImageType::Jpeg => Some("image/jpeg"),
        ImageType::Gif => Some("image/gif"),
        ImageType::Webp => Some("image/webp"),
        _ => None,
    }
}

/// Returns `true` if bytes begin as a picture that models can see.
pub(crate) fn is_picture(bytes: &[u8]) -> bool {
    mime_type(bytes).is_some()
}

/// A picture of these bytes, or the reason why a model is not shown it.
pub(crate) fn picture(bytes: &[u8]) -> Result<Picture, String> {
    if bytes.len() > MAX_PICTURE_BYTES {
        return Err(format!("it has {} bytes; at most {MAX_PICTURE_BYTES} are shown", bytes.len()));
    }
    let Some(mime_type) = mime_type(bytes) else {
        return Err("it is not a PNG, JPEG, GIF or WebP picture".to_owned());
    };
    let size = imagesize::blob_size(bytes).map_err(|_| "its size in pixels cannot be read".to_owned())?;
    if size.width > MAX_SIDE || size.height > MAX_SIDE {
        let (width, height) = (size.width, size.height);
        return Err(format!("it has {width} x {height} pixels; at most {MAX_SIDE} on a side are shown"));
    }
    if size.width == 0 || size.height == 0 {
        return Err("it has no pixels".to_owned());
    }
    Ok(Picture { mime_type: mime_type.into(), data: BASE64_STANDARD.encode(bytes).into() })
}

/// Checks the pictures among the blocks of a tool's result: one that cannot be shown is replaced by its size and the
/// reason. Nothing else is changed.
pub(crate) fn settle(result: &mut Value) {
    let Some(found) = blocks(result).filter(|blocks| blocks.iter().any(is_block)) else { return };
    let mut shown = 0;
    let settled = found.iter().map(|block| {
        if !is_block(block) {
            return block.clone();
        }
        let data = block.get("data").and_then(Value::as_str).unwrap_or_default();
        let picture = match shown < MAX_PICTURES {
            true => decoded(data).and_then(|bytes| picture(&bytes)),
            false => Err(format!("a result shows at most {MAX_PICTURES} pictures")),
        };
        match picture {
            Ok(picture) => {
                shown += 1;
                picture.to_block()
            }
            Err(why) => not_shown(block, data, &why),
        }
    });
    let settled: Vec<Value> = settled.collect();
    *result = with_blocks(result, settled);
}

/// Servers write picture data in one line or in several, with padding or without.
fn decoded(data: &str) -> Result<Vec<u8>, String> {
    if data.len() / 4 * 3 > MAX_PICTURE_BYTES + 1_024 {
        return Err(format!("it has {} bytes; at most {MAX_PICTURE_BYTES} are shown", data.len() / 4 * 3));
    }
    let data = data.trim_start();
    let data = match data.strip_prefix("data:") {
        Some(url) => url.split_once(";base64,").map_or(data, |(_, data)| data),
        None => data,
    };
    let plain: String = data.chars().filter(|c| !c.is_ascii_whitespace() && *c != '=').collect();
    base64::prelude::BASE64_STANDARD_NO_PAD.decode(plain).map_err(|_| "its data is not base64".to_owned())
}

fn is_block(block: &Value) -> bool {
    block.get("type").and_then(Value::as_str) == Some("image") && block.get("data").is_some()
}

fn not_shown(block: &Value, data: &str, why: &str) -> Value {
    let bytes = i64::try_from(data.len() / 4 * 3).unwrap_or(i64::MAX);
    let known = [("mimeType", 100), ("uri", 500)].into_iter().filter_map(|(key, most)| {
        let text = block.get(key).and_then(Value::as_str)?;
        Some((key, Value::from(one_line(text, most))))
    });
    let told =
        [("type", Value::from("image")), ("bytes", Value::from(bytes)), ("omitted", Value::from(printable(why, 200)))];
    Value::object(told.into_iter().chain(known))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A PNG's signature and header, with this size.
    pub(crate) fn png(width: u32, height: u32) -> Vec<u8> {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        bytes.extend(width.to_be_bytes());
        bytes.extend(height.to_be_bytes());
        bytes.extend([8, 2, 0, 0, 0]);
        bytes
    }

    fn block(kind: &str, data: &str) -> Value {
        Value::object([("type", "image".into()), ("mimeType", Value::from(kind)), ("data", Value::from(data))])
    }

    fn settled(blocks: Vec<Value>) -> Vec<Value> {
        let mut result = Value::from(blocks);
        settle(&mut result);
        result.as_array().unwrap().to_vec()
    }

    #[test]
    fn a_picture_is_known_by_its_bytes_and_not_by_its_name() {
        let data = BASE64_STANDARD.encode(png(3, 2));
        for (kind, data) in [
            ("image/png", data.clone()),
            ("image/jpeg", data.clone()),
            ("", format!("data:image/png;base64,{data}")),
            ("image/svg+xml", data.replace('=', "")),
            ("x", data.split_at(9).0.to_owned() + "\r\n" + data.split_at(9).1),
        ] {
            assert_eq!(settled(vec![block(kind, &data)]), [block("image/png", &BASE64_STANDARD.encode(png(3, 2)))]);
        }
    }

    #[test]
    fn a_picture_that_cannot_be_shown_says_why_and_spoils_no_other() {
        let good = block("image/png", &BASE64_STANDARD.encode(png(3, 2)));
        let large = BASE64_STANDARD.encode([png(3, 2), vec![0; MAX_PICTURE_BYTES]].concat());
        for (data, why) in [
            (BASE64_STANDARD.encode(png(1_000_000_000, 1)), "1000000000 x 1 pixels"),
            (BASE64_STANDARD.encode(png(0, 1)), "no pixels"),
            (large, "at most 3840000 are shown"),
            (BASE64_STANDARD.encode("<svg/>"), "not a PNG"),
            ("%%%".to_owned(), "not base64"),
            (String::new(), "not a PNG"),
            (BASE64_STANDARD.encode(b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x02\0"), "cannot be read"),
        ] {
            let settled = settled(vec![good.clone(), block("image/png", &data), Value::from("text")]);
            assert_eq!((&settled[0], &settled[2]), (&good, &Value::from("text")));
            let told = settled[1].get("omitted").and_then(Value::as_str).unwrap();
            assert!(told.contains(why) && settled[1].get("data").is_none(), "{why}: {told}");
        }
    }

    #[test]
    fn a_result_shows_a_bounded_number_of_pictures() {
        let good = block("image/png", &BASE64_STANDARD.encode(png(3, 2)));
        let settled = settled(vec![good; MAX_PICTURES + 2]);
        assert_eq!(settled.iter().filter(|block| block.get("data").is_some()).count(), MAX_PICTURES);
        assert_eq!(settled.len(), MAX_PICTURES + 2);
    }

    #[test]
    fn other_results_are_left_as_they_are() {
        for text in [r#""text""#, r#"[1,{"type":"image"}]"#, r#"{"type":"image","data":"x"}"#, "null"] {
            let mut value = Value::from_json(text).unwrap();
            settle(&mut value);
            assert_eq!(value.to_json(), text);
        }
    }
}
