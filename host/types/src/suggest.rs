//! "Did you mean": the one place that decides how near a misspelt word has to be, and how much work looking for it may
//! be.
//!
//! A document can have a hundred thousand misspelt names and as many right ones. A person reads the first suggestions
//! of a document, so these are all that are looked for: a word is compared with the first candidates only, and a
//! [`bounded`] piece of work makes a fixed number of comparisons at most.

use std::cell::Cell;

/// Jaro-Winkler similarity from which on a candidate is worth suggesting.
const NEAR: f64 = 0.8;

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
        .map(|candidate| (strsim::jaro_winkler(word, candidate), candidate))
        .filter(|(score, _)| *score > NEAR)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate);
    if let Some(left) = LEFT.get() {
        LEFT.set(Some(left.saturating_sub(looked)));
    }
    best
}

/// The end of a message about a misspelt word: `` ; did you mean `x`? ``, or nothing.
#[must_use]
pub fn hint<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    did_you_mean(word, candidates).map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_candidate_is_suggested_and_a_far_one_is_not() {
        assert_eq!(did_you_mean("wall-tme", ["memory", "wall-time"]), Some("wall-time"));
        assert_eq!(did_you_mean("http.fecth", ["http.fetch"]), Some("http.fetch"));
        assert_eq!(did_you_mean("zebra", ["memory", "wall-time"]), None);
        assert_eq!(hint("memroy", ["memory"]), "; did you mean `memory`?");
        assert_eq!(hint("zebra", ["memory"]), "");
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
}
