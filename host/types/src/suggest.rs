//! "Did you mean": the one place that decides how near a misspelt word has to be.

/// Jaro-Winkler similarity from which on a candidate is worth suggesting.
const NEAR: f64 = 0.8;

/// The candidate that a misspelt word most likely meant.
#[must_use]
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(word, candidate), candidate))
        .filter(|(score, _)| *score > NEAR)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

/// The end of a message about a misspelt word: `` ; did you mean `x`? ``, or nothing.
#[must_use]
pub fn hint<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    did_you_mean(word, candidates).map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{did_you_mean, hint};

    #[test]
    fn the_nearest_candidate_is_suggested_and_a_far_one_is_not() {
        assert_eq!(did_you_mean("wall-tme", ["memory", "wall-time"]), Some("wall-time"));
        assert_eq!(did_you_mean("http.fecth", ["http.fetch"]), Some("http.fetch"));
        assert_eq!(did_you_mean("zebra", ["memory", "wall-time"]), None);
        assert_eq!(hint("memroy", ["memory"]), "; did you mean `memory`?");
        assert_eq!(hint("zebra", ["memory"]), "");
    }
}
