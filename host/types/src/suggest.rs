//! "Did you mean": the one place that decides how near a misspelt word has to be, and how much work looking for it may
//! be.
//!
//! A document can have a hundred thousand misspelt names and as many right ones. A person reads the first suggestions
//! of a document, so these are all that are looked for: a word is compared with the first candidates only, and a
//! [`bounded`] piece of work makes a fixed number of comparisons at most.

use std::cell::Cell;

/// Jaro-Winkler similarity from which on a candidate is worth suggesting.
const NEAR: f64 = 0.8;

/// Bytes of a word from which on a slip of one letter is more than chance.
const MIN_SLIP_BYTES: usize = 3;

/// Candidates that one word is compared with.
pub const MAX_CANDIDATES: usize = 2_000;

/// Bytes of a word or a candidate that is compared: the comparison takes the product of both lengths.
pub const MAX_WORD_BYTES: usize = 128;

/// Comparisons of one piece of work: some hundredths of a second.
pub const MAX_COMPARISONS: usize = 100_000;

thread_local! {
    /// Comparisons that the piece of work on this thread may still make; `None` outside of one.
    static LEFT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Does a piece of work, such as the check of one document, that looks for suggestions within one bound. A piece within
/// a piece shares its bound.
pub fn bounded<T>(work: impl FnOnce() -> T) -> T {
    /// Ends the piece of work, also when it panics.
    struct End(Option<usize>);
    impl Drop for End {
        fn drop(&mut self) {
            LEFT.set(self.0);
        }
    }
    let outer = LEFT.get();
    if outer.is_some() {
        return work();
    }
    let _end = End(outer);
    LEFT.set(Some(MAX_COMPARISONS));
    work()
}

/// The candidate that a misspelt word most likely meant.
#[must_use]
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > MAX_WORD_BYTES {
        return None;
    }
    let most = LEFT.get().map_or(MAX_CANDIDATES, |left| left.min(MAX_CANDIDATES));
    if most == 0 {
        return None;
    }
    let mut looked = 0;
    let best = candidates
        .into_iter()
        .take(most)
        .inspect(|_| looked += 1)
        .filter(|candidate| candidate.len() <= MAX_WORD_BYTES)
        .map(|candidate| (nearness(word, candidate), candidate))
        .filter(|(score, _)| *score > NEAR)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate);
    if let Some(left) = LEFT.get() {
        LEFT.set(Some(left.saturating_sub(looked)));
    }
    best
}

/// Returns the similarity of two words. The same word in another case is nearest, then a slip of one letter: of short
/// words, the similarity says little.
fn nearness(word: &str, candidate: &str) -> f64 {
    if word.eq_ignore_ascii_case(candidate) {
        return 3.0;
    }
    let similarity = strsim::jaro_winkler(word, candidate);
    let is_short = word.len().min(candidate.len()) < MIN_SLIP_BYTES;
    if is_short || strsim::osa_distance(word, candidate) > 1 { similarity } else { 1.0 + similarity }
}

/// The candidate that is one slip of a letter away from a word: for words that need not be one of the candidates.
#[must_use]
pub fn slip_of<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() < MIN_SLIP_BYTES || word.len() > MAX_WORD_BYTES {
        return None;
    }
    candidates.into_iter().take(MAX_CANDIDATES).find(|candidate| strsim::osa_distance(word, candidate) == 1)
}

/// The end of a message about a misspelt word: `` ; did you mean `x`? ``, or nothing.
#[must_use]
pub fn hint<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    did_you_mean(word, candidates).map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default()
}

/// The first line of a message of a reader of YAML or JSON: its place, then the problem in the words of authors, and for
/// an unknown key or value the one that was probably meant. The further lines repeat the text around the place.
#[must_use]
pub fn reader_message(message: &str) -> String {
    let first = message.lines().next().unwrap_or_default();
    let first = first.strip_prefix("error: ").unwrap_or(first);
    let mut told = match first.rsplit_once(" at line ") {
        Some((problem, place)) if !first.starts_with("line ") => format!("line {place}: {problem}"),
        _ => first.to_owned(),
    };
    for (of_reader, of_author) in [
        ("unknown field `", "unknown key `"),
        ("missing field `", "missing key `"),
        ("duplicate field `", "duplicate key `"),
        ("unknown variant `", "unknown value `"),
        ("expected sequence start", "expected a list"),
        ("expected mapping start", "expected keys with values"),
        ("expected string scalar", "expected a text"),
        ("invalid boolean (strict mode expects true/false)", "expected `true` or `false`"),
    ] {
        told = told.replacen(of_reader, of_author, 1);
    }
    let told = in_words_of_authors(&told);
    let near = || {
        let start = ["unknown key `", "unknown value `"].into_iter().find(|start| told.contains(start))?;
        let (word, known) = told.split_once(start)?.1.split_once('`')?;
        let known = known.split_once("expected ")?.1.split([',', ' ', '`']);
        Some(hint(word, known.filter(|part| !["", "one", "of", "or"].contains(part))))
    };
    let near = near().unwrap_or_default();
    told + &near
}

/// A message of serde without the names of Rust's numbers.
#[must_use]
pub fn in_words_of_authors(message: &str) -> String {
    const NUMBERS: [(&str, &str); 12] = [
        ("u8", "a whole number"),
        ("u16", "a whole number"),
        ("u32", "a whole number"),
        ("u64", "a whole number"),
        ("usize", "a whole number"),
        ("i8", "an integer"),
        ("i16", "an integer"),
        ("i32", "an integer"),
        ("i64", "an integer"),
        ("isize", "an integer"),
        ("f32", "a number"),
        ("f64", "a number"),
    ];
    for (of_rust, words) in NUMBERS {
        for before in ["expected ", "invalid "] {
            if let Some(problem) = message.strip_suffix(of_rust).and_then(|rest| rest.strip_suffix(before)) {
                return format!("{problem}expected {words}");
            }
        }
    }
    message.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_candidate_is_suggested_and_a_far_one_is_not() {
        assert_eq!(did_you_mean("wall-tme", ["memory", "wall-time"]), Some("wall-time"));
        assert_eq!(did_you_mean("http.fecth", ["http.fetch"]), Some("http.fetch"));
        assert_eq!(did_you_mean("zebra", ["memory", "wall-time"]), None);
        assert_eq!(did_you_mean("dta", ["data", "summary", "details"]), Some("data"));
        assert_eq!(did_you_mean("aks", ["fail", "ask"]), Some("ask"));
        assert_eq!(did_you_mean("ab", ["ax", "b"]), None);
        assert_eq!(did_you_mean("C", ["rust", "c"]), Some("c"));
        assert_eq!(hint("memroy", ["memory"]), "; did you mean `memory`?");
        assert_eq!(hint("zebra", ["memory"]), "");
        assert_eq!(slip_of("reqiured", ["type", "required"]), Some("required"));
        assert_eq!((slip_of("required", ["required"]), slip_of("requires-all", ["required"])), (None, None));
    }

    #[test]
    fn a_word_is_compared_with_the_first_candidates_only() {
        let looked = Cell::new(0);
        let candidates = || std::iter::repeat_with(|| looked.set(looked.get() + 1)).map(|()| "memory");
        assert_eq!(did_you_mean("memroy", candidates()), Some("memory"));
        assert_eq!(looked.get(), MAX_CANDIDATES);
        let long = "x".repeat(MAX_WORD_BYTES + 1);
        assert_eq!(did_you_mean(&long, [&*long]), None);
    }

    #[test]
    fn a_piece_of_work_makes_so_many_comparisons_and_the_next_one_as_many_again() {
        let looked = Cell::new(0);
        let candidates = || std::iter::repeat_with(|| looked.set(looked.get() + 1)).map(|()| "memory").take(1_000);
        for _ in 0..2 {
            looked.set(0);
            bounded(|| {
                assert_eq!(did_you_mean("memroy", candidates()), Some("memory"));
                (0..1_000).for_each(|_| {
                    bounded(|| did_you_mean("memroy", candidates()));
                });
                assert_eq!(did_you_mean("memroy", candidates()), None);
            });
            assert_eq!(looked.get(), MAX_COMPARISONS);
        }
        assert_eq!(did_you_mean("memroy", ["memory"]), Some("memory"));
    }

    #[test]
    fn a_readers_message_begins_with_the_place_and_ends_with_what_was_meant() {
        for (message, expected) in [
            (
                "error: line 2 column 1: unknown field `turn`, expected one of version, order, turns\n --> <input>:2:1",
                "line 2 column 1: unknown key `turn`, expected one of version, order, turns; did you mean `turns`?",
            ),
            (
                "unknown variant `anny`, expected `strict` or `any` at line 1 column 9",
                "line 1 column 9: unknown value `anny`, expected `strict` or `any`; did you mean `any`?",
            ),
            ("missing field `name` at line 3 column 5", "line 3 column 5: missing key `name`"),
            ("error: line 8 column 3: expected sequence start", "line 8 column 3: expected a list"),
            ("error: line 1 column 2: invalid u64", "line 1 column 2: expected a whole number"),
            ("invalid type: string \"x\", expected i64", "invalid type: string \"x\", expected an integer"),
            ("unknown field `xyz`, there are no fields", "unknown key `xyz`, there are no fields"),
            ("", ""),
        ] {
            assert_eq!(reader_message(message), expected);
        }
    }
}
