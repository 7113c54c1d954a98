//! Text in other charsets than UTF-8, told by its first bytes. A header's `charset` is not asked: servers write one out of
//! habit and send UTF-8.

/// The charset of a text that no answer is read in, UTF-16 or UTF-32: by its byte-order mark, or by the zeros around the
/// ASCII character with which every answer begins.
pub(in super::super) fn foreign_text(head: &[u8]) -> Option<&'static str> {
    match head {
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] | [1..=0x7f, 0, 0, 0, ..] | [0, 0, 0, 1..=0x7f, ..] => {
            Some("UTF-32")
        }
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [1..=0x7f, 0, ..] | [0, 1..=0x7f, ..] => Some("UTF-16"),
        _ => None,
    }
}
