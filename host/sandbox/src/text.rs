//! Text that untrusted code wrote, made safe to keep and to print.

/// The text, cut at a character boundary to at most `limit` bytes (and then marked with `…`), control characters other than
/// newline and tab replaced.
#[must_use]
pub(crate) fn printable(text: &str, limit: usize) -> String {
    let cut = text.floor_char_boundary(limit);
    let kept = text.get(..cut).unwrap_or(text);
    let mut out: String = kept.chars().map(|c| if is_hostile(c) { char::REPLACEMENT_CHARACTER } else { c }).collect();
    if cut < text.len() {
        out.push('…');
    }
    out
}

/// Control characters drive terminals; bidirectional overrides make a line read as something it is not.
fn is_hostile(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn a_cut_never_splits_a_character() {
        assert_eq!(printable("aé", 2), "a…");
        assert_eq!(printable("aé", 3), "aé");
    }

    #[test]
    fn escape_sequences_and_direction_overrides_lose_their_power() {
        assert_eq!(printable("\u{1b}[2J\u{202e}ok\n", 100), "\u{fffd}[2J\u{fffd}ok\n");
    }
}
