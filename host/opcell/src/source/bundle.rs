//! A source plugin as a component: the JavaScript runtime, with the source and its description as one more segment of
//! data, and the manifest in its custom section; or the runtime for Python, which has room for both in its data.
//!
//! The record that the JavaScript runtime finds them by is in `guest-sdk/javascript-runtime/bundle.h`; that of Python is at
//! the end of `host/author/runtimes/python/plugin.py`.

use std::ops::Range;

/// The mark of the record; after it, the address of the segment, four bytes that are set, and its length.
const MARK: &[u8; 16] = b"opcell-bundle-v1";

/// The text that fills the room of the runtime for Python as often as it fits.
const FILLER: &[u8; 16] = b"opcell-no-source";

/// Bytes of that room: the largest source and its description.
const ROOM: usize = FILLER.len() * 65_792;

/// The first bytes of a room that has a source; after it, the lengths of the description and of the source.
const PYTHON_MARK: &[u8; 16] = b"opcell-source-v1";

/// Length of the first bytes of a component and of a module.
const PREAMBLE: usize = 8;

/// Bytes of a page of memory.
const PAGE: u64 = 1 << 16;

const CUSTOM: u8 = 0;
/// In a component.
const CORE_MODULE: u8 = 1;
/// In a core module.
const MEMORY: u8 = 5;
const DATA: u8 = 11;
const DATA_COUNT: u8 = 12;

/// The runtime with a bundle and a manifest. Returns `None` for bytes that are not the runtime.
pub(super) fn component(runtime: &[u8], bundle: &[u8], manifest: &[u8]) -> Option<Vec<u8>> {
    let mut made = runtime.get(..PREAMBLE)?.to_vec();
    let mut is_filled = false;
    for section in sections(runtime)? {
        match section.id {
            CUSTOM if is_manifest(section.payload) => {}
            CORE_MODULE if !is_filled && find(section.payload, MARK).is_some() => {
                push_section(&mut made, CORE_MODULE, &module(section.payload, bundle)?);
                is_filled = true;
            }
            id => push_section(&mut made, id, section.payload),
        }
    }
    push_manifest(&mut made, manifest);
    is_filled.then_some(made)
}

/// The runtime for Python with a source, its description and a manifest. Returns `None` for bytes that are not this
/// runtime, or a source that its room does not hold.
pub(super) fn python_component(runtime: &[u8], description: &str, source: &str, manifest: &[u8]) -> Option<Vec<u8>> {
    let length = |text: &str| u32::try_from(text.len()).map(u32::to_le_bytes).ok();
    let lengths = [length(description)?, length(source)?].concat();
    let record = [PYTHON_MARK, &*lengths, description.as_bytes(), source.as_bytes()].concat();
    let room = room(runtime)?;
    let mut filled = runtime.to_vec();
    filled.get_mut(room)?.get_mut(..record.len())?.copy_from_slice(&record);
    let mut made = filled.get(..PREAMBLE)?.to_vec();
    for section in sections(&filled)? {
        if section.id != CUSTOM || !is_manifest(section.payload) {
            push_section(&mut made, section.id, section.payload);
        }
    }
    push_manifest(&mut made, manifest);
    Some(made)
}

/// The room for a source: the only place with so much of its filler. Looks at a few bytes of every half of its length, since
/// the runtime is large.
fn room(bytes: &[u8]) -> Option<Range<usize>> {
    let is_filler = |at: usize| bytes.get(at..at + FILLER.len()) == Some(FILLER);
    (0..bytes.len()).step_by(ROOM / 2).find_map(|probe| {
        let mut start = probe + find(bytes.get(probe..probe + 2 * FILLER.len())?, FILLER)?;
        while let Some(before) = start.checked_sub(FILLER.len()).filter(|before| is_filler(*before)) {
            start = before;
        }
        let end = start + ROOM;
        (start..end).step_by(FILLER.len()).all(is_filler).then_some(start..end)
    })
}

fn push_manifest(made: &mut Vec<u8>, manifest: &[u8]) {
    let name = opcell_sandbox::manifest::SECTION.as_bytes();
    let mut custom = Vec::with_capacity(name.len() + manifest.len() + 2);
    push_number(&mut custom, name.len() as u64);
    custom.extend_from_slice(name);
    custom.extend_from_slice(manifest);
    push_section(made, CUSTOM, &custom);
}

fn module(module: &[u8], bundle: &[u8]) -> Option<Vec<u8>> {
    let length = u32::try_from(bundle.len()).ok()?;
    let mut patched = module.to_vec();
    let record = find(&patched, MARK)? + MARK.len();
    let at = u32::from_le_bytes(patched.get(record..record + 4)?.try_into().ok()?);
    patched.get_mut(record + 8..record + 12)?.copy_from_slice(&length.to_le_bytes());
    // Room for the first blocks of the heap after the bundle.
    let pages = (u64::from(at) + u64::from(length)).div_ceil(PAGE) + 1;
    let mut made = patched.get(..PREAMBLE)?.to_vec();
    for section in sections(&patched)? {
        match section.id {
            MEMORY => push_section(&mut made, MEMORY, &memory(section.payload, pages)?),
            DATA_COUNT => {
                let (count, _) = number(section.payload)?;
                let mut payload = Vec::new();
                push_number(&mut payload, count + 1);
                push_section(&mut made, DATA_COUNT, &payload);
            }
            DATA => push_section(&mut made, DATA, &data(section.payload, at, bundle)?),
            id => push_section(&mut made, id, section.payload),
        }
    }
    Some(made)
}

/// The section of the one memory, with at least this number of pages.
fn memory(payload: &[u8], pages: u64) -> Option<Vec<u8>> {
    let (count, rest) = number(payload)?;
    let (flags, rest) = rest.split_first()?;
    let (least, rest) = number(rest)?;
    // With a maximum, the runtime would be another one.
    if count != 1 || *flags != 0 || !rest.is_empty() {
        return None;
    }
    let mut made = vec![1, *flags];
    push_number(&mut made, least.max(pages));
    Some(made)
}

/// The section of data with one segment more, at this address of the first memory.
fn data(payload: &[u8], at: u32, bundle: &[u8]) -> Option<Vec<u8>> {
    const I32_CONST: u8 = 0x41;
    const END: u8 = 0x0b;
    let (count, segments) = number(payload)?;
    let mut made = Vec::with_capacity(payload.len() + bundle.len() + 20);
    push_number(&mut made, count + 1);
    made.extend_from_slice(segments);
    made.extend_from_slice(&[0, I32_CONST]);
    push_signed(&mut made, i64::from(at));
    made.push(END);
    push_number(&mut made, bundle.len() as u64);
    made.extend_from_slice(bundle);
    Some(made)
}

struct Section<'a> {
    id: u8,
    payload: &'a [u8],
}

/// The sections of a component or module.
fn sections(bytes: &[u8]) -> Option<Vec<Section<'_>>> {
    let mut rest = bytes.get(PREAMBLE..)?;
    let mut found = Vec::new();
    while let Some((id, after)) = rest.split_first() {
        let (length, after) = number(after)?;
        let (payload, after) = after.split_at_checked(usize::try_from(length).ok()?)?;
        found.push(Section { id: *id, payload });
        rest = after;
    }
    Some(found)
}

fn is_manifest(custom: &[u8]) -> bool {
    let name = number(custom).and_then(|(length, rest)| rest.get(..usize::try_from(length).ok()?));
    name == Some(opcell_sandbox::manifest::SECTION.as_bytes())
}

fn find(bytes: &[u8], mark: &[u8]) -> Option<usize> {
    bytes.windows(mark.len()).position(|window| window == mark)
}

/// An unsigned number in LEB128, and the bytes after it.
fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (index, byte) in bytes.iter().enumerate().take(9) {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, bytes.get(index + 1..)?));
        }
    }
    None
}

#[allow(clippy::cast_possible_truncation, reason = "seven bits")]
fn push_number(into: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        into.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seven bits")]
fn push_signed(into: &mut Vec<u8>, mut value: i64) {
    loop {
        let byte = (value & 0x7f) as u8;
        value >>= 7;
        if (value == 0 && byte & 0x40 == 0) || (value == -1 && byte & 0x40 != 0) {
            into.push(byte);
            return;
        }
        into.push(byte | 0x80);
    }
}

fn push_section(into: &mut Vec<u8>, id: u8, payload: &[u8]) {
    into.push(id);
    push_number(into, payload.len() as u64);
    into.extend_from_slice(payload);
}

#[cfg(test)]
mod tests {
    use super::{
        FILLER, PYTHON_MARK, ROOM, component, find, number, push_number, push_section, push_signed, python_component,
    };

    #[test]
    fn numbers_are_written_as_they_are_read() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX)] {
            let mut bytes = Vec::new();
            push_number(&mut bytes, value);
            assert_eq!(number(&bytes), Some((value, &[][..])));
        }
        let signed = |value| {
            let mut bytes = Vec::new();
            push_signed(&mut bytes, value);
            bytes
        };
        assert_eq!(signed(63), [0x3f]);
        assert_eq!(signed(64), [0xc0, 0]);
        assert_eq!(signed(-1), [0x7f]);
    }

    #[test]
    fn other_bytes_are_not_the_runtime() {
        for bytes in [&b""[..], b"\0asm\x0d\0\x01\0", b"\0asm\x0d\0\x01\0\x01\xff\xff", b"a text of some length"] {
            assert_eq!(component(bytes, b"{}\0\0", b"{}"), None);
        }
    }

    /// A component with the room of the runtime for Python at this place, and a manifest.
    fn with_room(before: usize, room: usize) -> Vec<u8> {
        let data: Vec<u8> = vec![7; before].into_iter().chain(FILLER.iter().copied().cycle().take(room)).collect();
        let mut made = b"\0asm\x0d\0\x01\0".to_vec();
        push_section(&mut made, 1, &data);
        let mut custom = vec![15];
        custom.extend_from_slice(b"opcell:manifest{\"name\": \"python\"}");
        push_section(&mut made, 0, &custom);
        made
    }

    #[test]
    fn a_source_in_python_takes_the_room_of_its_runtime_wherever_that_is() {
        for before in [0, 1, 15, 16, 700_001] {
            let runtime = with_room(before, ROOM);
            let made = python_component(&runtime, "{}", "def f(): pass", b"{\"schema\": 1}").unwrap();
            let at = find(&made, PYTHON_MARK).unwrap();
            assert_eq!(made[at + 16..at + 24], [2, 0, 0, 0, 13, 0, 0, 0], "{before}");
            assert_eq!(&made[at + 24..at + 39], b"{}def f(): pass", "{before}");
            assert_eq!(find(&made, b"\"python\""), None, "the manifest of the runtime");
            assert!(find(&made, b"opcell:manifest{\"schema\": 1}").is_some());
            assert_eq!(python_component(&runtime, "{}", "def f(): pass", b"{\"schema\": 1}").unwrap(), made);
            // What has a source has no room.
            assert_eq!(python_component(&made, "{}", "", b"{}"), None);
        }
        let runtime = with_room(5, ROOM);
        assert!(python_component(&runtime, "{}", &"#".repeat(1 << 20), b"{}").is_some());
        assert_eq!(python_component(&runtime, "{}", &"#".repeat(ROOM - 25), b"{}"), None);
        assert_eq!(python_component(&with_room(5, ROOM - 16), "{}", "", b"{}"), None);
        assert_eq!(python_component(b"", "{}", "", b"{}"), None);
    }

    #[test]
    fn the_same_source_gives_the_same_bytes() {
        let runtime = crate::builtin::component(crate::builtin::CODE).unwrap();
        let made = component(runtime, b"{}\0export const a = 1;\0", b"{\"schema\": 1}").unwrap();
        assert_eq!(component(runtime, b"{}\0export const a = 1;\0", b"{\"schema\": 1}").unwrap(), made);
        assert!(super::find(&made, b"export const a = 1;").is_some());
        assert_eq!(made.windows(15).filter(|window| window == b"opcell:manifest").count(), 1);
    }
}
