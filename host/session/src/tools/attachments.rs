//! Pictures, documents and recordings that tools show to models: checked by their bytes before a provider is sent them.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use imagesize::ImageType;
use opcell_engine::conversation::{Attachment, AttachmentKind, blocks, with_blocks};
use opcell_ir::ir::{MediaLimit, MediaLimits};
use opcell_types::{
    Value,
    text::{one_line, printable},
};

/// The most bytes of one picture: with base64, what the strictest provider takes.
const MAX_PICTURE_BYTES: usize = 3_750 << 10;

/// The most bytes of one document or recording: with base64, it has room in a conversation.
const MAX_FILE_BYTES: usize = 8 << 20;

/// The most attachments of one result.
const MAX_ATTACHMENTS: usize = 8;

/// The most pixels of one side.
const MAX_SIDE: usize = 8_000;

/// The format of an attachment, by its bytes.
fn mime_type(bytes: &[u8]) -> Option<&'static str> {
    match imagesize::image_type(bytes) {
        Ok(ImageType::Png) => return Some("image/png"),
        Ok(ImageType::Jpeg) => return Some("image/jpeg"),
        Ok(ImageType::Gif) => return Some("image/gif"),
        Ok(ImageType::Webp) => return Some("image/webp"),
        _ => {}
    }
    let form = |begin: &[u8], kinds: &[&[u8]]| {
        bytes.starts_with(begin) && bytes.get(8..12).is_some_and(|kind| kinds.contains(&kind))
    };
    match bytes {
        [b'%', b'P', b'D', b'F', b'-', ..] => Some("application/pdf"),
        _ if form(b"RIFF", &[b"WAVE"]) => Some("audio/wav"),
        _ if form(b"FORM", &[b"AIFF", b"AIFC"]) => Some("audio/aiff"),
        [b'f', b'L', b'a', b'C', ..] => Some("audio/flac"),
        [b'O', b'g', b'g', b'S', 0, ..] => Some("audio/ogg"),
        [b'I', b'D', b'3', 2..=4, ..] => Some("audio/mpeg"),
        [0xff, second, third, ..] if is_mp3_frame(*second, *third) => Some("audio/mpeg"),
        _ => None,
    }
}

/// Returns `true` if the second and third byte are those of a frame of layer III after 0xff; the mark of UTF-16 is
/// none.
fn is_mp3_frame(second: u8, third: u8) -> bool {
    let (version, layer) = (second >> 3 & 0b11, second >> 1 & 0b11);
    let (bit_rate, sample_rate) = (third >> 4, third >> 2 & 0b11);
    second & 0xe0 == 0xe0 && version != 1 && layer == 1 && !matches!(bit_rate, 0 | 15) && sample_rate != 3
}

/// The kind of attachment that bytes begin as.
pub(crate) fn kind(bytes: &[u8]) -> Option<AttachmentKind> {
    mime_type(bytes).and_then(AttachmentKind::of)
}

/// An attachment of these bytes, or the reason why a model is not shown it; `expected`: the kind that it is said to be.
pub(crate) fn attachment(bytes: &[u8], expected: AttachmentKind) -> Result<Attachment, String> {
    let kind = kind(bytes);
    let most = most_bytes(kind.unwrap_or(expected));
    if bytes.len() > most {
        return Err(too_large(bytes.len(), most));
    }
    let Some((mime_type, kind)) = mime_type(bytes).zip(kind) else {
        let formats = match expected {
            AttachmentKind::Picture => "a PNG, JPEG, GIF or WebP picture",
            AttachmentKind::Document => "a PDF document",
            AttachmentKind::Audio => "a WAV, MP3, FLAC, Ogg or AIFF recording",
        };
        return Err(format!("it is not {formats}"));
    };
    if kind == AttachmentKind::Picture {
        check_pixels(bytes)?;
    }
    Ok(Attachment { mime_type: mime_type.into(), data: BASE64_STANDARD.encode(bytes).into() })
}

fn most_bytes(kind: AttachmentKind) -> usize {
    match kind {
        AttachmentKind::Picture => MAX_PICTURE_BYTES,
        AttachmentKind::Document | AttachmentKind::Audio => MAX_FILE_BYTES,
    }
}

fn too_large(bytes: usize, most: usize) -> String {
    format!("it has {bytes} bytes; at most {most} are shown")
}

fn check_pixels(bytes: &[u8]) -> Result<(), String> {
    let size = imagesize::blob_size(bytes).map_err(|_| "its size in pixels cannot be read".to_owned())?;
    if size.width > MAX_SIDE || size.height > MAX_SIDE {
        let (width, height) = (size.width, size.height);
        return Err(format!("it has {width} x {height} pixels; at most {MAX_SIDE} on a side are shown"));
    }
    if size.width == 0 || size.height == 0 {
        return Err("it has no pixels".to_owned());
    }
    Ok(())
}

/// Checks the attachments among the blocks of a tool's result: one that cannot be shown, or that the session's limits do
/// not let through, is replaced by its size and the reason. Nothing else is changed.
pub(crate) fn settle(result: &mut Value, limits: Option<&MediaLimits>) {
    let Some(found) = blocks(result).filter(|blocks| blocks.iter().any(|block| said(block).is_some())) else { return };
    let mut shown = 0;
    let mut of_kind = [0_usize; AttachmentKind::ALL.len()];
    let settled = found.iter().map(|block| {
        let Some(kind) = said(block) else { return block.clone() };
        let data = block.get("data").and_then(Value::as_str).unwrap_or_default();
        let found = match shown < MAX_ATTACHMENTS {
            true => decoded(data, most_bytes(kind)).and_then(|bytes| {
                let found = attachment(&bytes, kind)?;
                let count = of_kind.iter_mut().zip(AttachmentKind::ALL).find(|(_, known)| *known == found.kind());
                let count = count.map(|(count, _)| count);
                limits.map_or(Ok(()), |limits| let_through(&found, bytes.len(), count.as_deref().copied(), limits))?;
                count.into_iter().for_each(|count| *count += 1);
                Ok(found)
            }),
            false => Err(format!("a result shows at most {MAX_ATTACHMENTS} {}s", kind.noun())),
        };
        match found {
            Ok(attachment) => {
                shown += 1;
                attachment.to_block()
            }
            Err(why) => not_shown(block, kind, data, &why),
        }
    });
    let settled: Vec<Value> = settled.collect();
    *result = with_blocks(result, settled);
}

/// Checks an attachment by the limits of the session. `count`: how many of its kind the result shows already.
fn let_through(found: &Attachment, bytes: usize, count: Option<usize>, limits: &MediaLimits) -> Result<(), String> {
    let kind = found.kind();
    let noun = kind.noun();
    let limit = match kind {
        AttachmentKind::Picture => &limits.pictures,
        AttachmentKind::Document => &limits.documents,
        AttachmentKind::Audio => &limits.audio,
    };
    let Some(MediaLimit { max_bytes, types, max_count }) = limit else {
        return Err(format!("`media` of the prompt has no {noun}s"));
    };
    if let Some(most) = max_bytes.filter(|most| bytes as u64 > *most) {
        return Err(format!("it has {bytes} bytes; `media` of the prompt shows at most {most}"));
    }
    let is_type = |types: &Vec<String>| types.iter().any(|known| *known == *found.mime_type.as_str());
    if !types.as_ref().is_none_or(is_type) {
        return Err(format!("`media` of the prompt shows no {noun} of the type {}", found.mime_type.as_str()));
    }
    match max_count {
        Some(most) if count.unwrap_or_default() >= *most as usize => {
            Err(format!("`media` of the prompt shows at most {most} {noun}s of a result"))
        }
        _ => Ok(()),
    }
}

/// Servers write data in one line or in several, with padding or without.
fn decoded(data: &str, most: usize) -> Result<Vec<u8>, String> {
    if data.len() / 4 * 3 > most + 1_024 {
        return Err(too_large(data.len() / 4 * 3, most));
    }
    let data = data.trim_start();
    let data = match data.strip_prefix("data:") {
        Some(url) => url.split_once(";base64,").map_or(data, |(_, data)| data),
        None => data,
    };
    let plain: String = data.chars().filter(|c| !c.is_ascii_whitespace() && *c != '=').collect();
    base64::prelude::BASE64_STANDARD_NO_PAD.decode(plain).map_err(|_| "its data is not base64".to_owned())
}

/// The kind of attachment that a block says it is. Other results have a `type` and `data` as well: only those of known
/// formats count.
fn said(block: &Value) -> Option<AttachmentKind> {
    block.get("data")?;
    let mime_type = block.get("mimeType").and_then(Value::as_str).unwrap_or_default();
    match block.get("type").and_then(Value::as_str)? {
        "image" => Some(AttachmentKind::Picture),
        "audio" if mime_type.starts_with("audio/") => Some(AttachmentKind::Audio),
        "file" if mime_type == "application/pdf" => Some(AttachmentKind::Document),
        _ => None,
    }
}

fn not_shown(block: &Value, kind: AttachmentKind, data: &str, why: &str) -> Value {
    let bytes = i64::try_from(data.len() / 4 * 3).unwrap_or(i64::MAX);
    let known = [("mimeType", 100), ("uri", 500)].into_iter().filter_map(|(key, most)| {
        let text = block.get(key).and_then(Value::as_str)?;
        Some((key, Value::from(one_line(text, most))))
    });
    let told = [
        ("type", Value::from(kind.block_type())),
        ("bytes", Value::from(bytes)),
        ("omitted", Value::from(printable(why, 200))),
    ];
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

    /// The beginning of a PDF document.
    pub(crate) fn pdf() -> Vec<u8> {
        b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n<</Type/Catalog>>\nendobj\n".to_vec()
    }

    /// A WAV file without samples.
    pub(crate) fn wav() -> Vec<u8> {
        b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x80\x3e\0\0\0\x7d\0\0\x02\0\x10\0data\0\0\0\0".to_vec()
    }

    fn of_type(block: &str, kind: &str, bytes: &[u8]) -> Value {
        let data = BASE64_STANDARD.encode(bytes);
        Value::object([("type", Value::from(block)), ("mimeType", Value::from(kind)), ("data", Value::from(data))])
    }

    #[test]
    fn documents_and_recordings_are_known_by_their_bytes() {
        for (bytes, kind) in [
            (pdf(), "application/pdf"),
            (wav(), "audio/wav"),
            (b"ID3\x04\0\0\0\0\0\0".to_vec(), "audio/mpeg"),
            (b"\xff\xfb\x90\x64".to_vec(), "audio/mpeg"),
            (b"fLaC\0\0\0\x22".to_vec(), "audio/flac"),
            (b"OggS\0\x02\0\0".to_vec(), "audio/ogg"),
            (b"FORM\0\0\0\x04AIFC".to_vec(), "audio/aiff"),
        ] {
            assert_eq!(mime_type(&bytes), Some(kind));
        }
        let utf16 = b"\xff\xfeT\0e\0x\0t\0";
        for text in
            [&utf16[..], b"%PDQ-1.7", b"RIFF\x24\0\0\0AVI LIST", b"OggS is a format", b"ID3 tags", b"\xff\xfb", b""]
        {
            assert_eq!(mime_type(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_block_is_what_its_bytes_are_and_says_why_it_is_not_shown() {
        // A document that a server calls a recording.
        let found = settled(vec![of_type("audio", "audio/mpeg", &pdf())]);
        assert_eq!(found, [of_type("file", "application/pdf", &pdf())]);
        let large = [pdf(), vec![b' '; MAX_FILE_BYTES]].concat();
        for (block, why) in [
            (of_type("file", "application/pdf", b"MZ\x90\0"), "not a PDF document"),
            (of_type("audio", "audio/wav", b"<html>"), "not a WAV, MP3, FLAC, Ogg or AIFF recording"),
            (of_type("file", "application/pdf", &large), "at most 8388608 are shown"),
        ] {
            let found = settled(vec![block]);
            assert!(found[0].get("data").is_none());
            let told = found[0].get("omitted").and_then(Value::as_str).unwrap();
            assert!(told.contains(why), "{why}: {told}");
        }
        // What merely looks alike is another tool's own.
        let other = of_type("file", "text/plain", b"text");
        assert_eq!(settled(vec![other.clone()]), [other]);
    }

    fn block(kind: &str, data: &str) -> Value {
        Value::object([("type", "image".into()), ("mimeType", Value::from(kind)), ("data", Value::from(data))])
    }

    fn settled(blocks: Vec<Value>) -> Vec<Value> {
        let mut result = Value::from(blocks);
        settle(&mut result, None);
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
        let settled = settled(vec![good; MAX_ATTACHMENTS + 2]);
        assert_eq!(settled.iter().filter(|block| block.get("data").is_some()).count(), MAX_ATTACHMENTS);
        assert_eq!(settled.len(), MAX_ATTACHMENTS + 2);
    }

    #[test]
    fn the_limits_of_a_prompt_hold_beside_those_of_the_host_by_content() {
        let pictures = |of: MediaLimit| MediaLimits { pictures: Some(of), ..MediaLimits::default() };
        let png = |width: u32| block("image/jpeg", &BASE64_STANDARD.encode(png(width, 2)));
        let sound = of_type("audio", "audio/wav", &wav());
        let told = |limits: &MediaLimits, blocks: Vec<Value>| {
            let mut result = Value::from(blocks);
            settle(&mut result, Some(limits));
            let omitted = |block: &Value| block.get("omitted").and_then(Value::as_str).unwrap_or("shown").to_owned();
            result.as_array().unwrap().iter().map(omitted).collect::<Vec<_>>()
        };
        let any = pictures(MediaLimit::default());
        assert_eq!(told(&any, vec![png(3), sound]), ["shown", "`media` of the prompt has no recordings"]);
        let small = pictures(MediaLimit { max_bytes: Some(10), ..MediaLimit::default() });
        assert_eq!(told(&small, vec![png(3)]), ["it has 29 bytes; `media` of the prompt shows at most 10"]);
        let types = Some(vec!["image/jpeg".to_owned()]);
        let jpeg = pictures(MediaLimit { types, ..MediaLimit::default() });
        assert_eq!(told(&jpeg, vec![png(3)]), ["`media` of the prompt shows no picture of the type image/png"]);
        let two = pictures(MediaLimit { max_count: Some(2), ..MediaLimit::default() });
        let all = told(&two, vec![png(0), png(3), png(4), png(5)]);
        let last = "`media` of the prompt shows at most 2 pictures of a result";
        assert_eq!(all[1..], ["shown", "shown", last], "one that cannot be shown does not count");
    }

    #[test]
    fn other_results_are_left_as_they_are() {
        for text in [r#""text""#, r#"[1,{"type":"image"}]"#, r#"{"type":"image","data":"x"}"#, "null"] {
            let mut value = Value::from_json(text).unwrap();
            settle(&mut value, None);
            assert_eq!(value.to_json(), text);
        }
    }
}
