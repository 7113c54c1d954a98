//! "Did you mean": the nearest known name.

/// "; did you mean `x`?" for a misspelt name, or nothing when no known name is near.
#[must_use]
pub fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    known
        .into_iter()
        .map(|known| (strsim::damerau_levenshtein(name, known), known))
        .filter(|(distance, known)| *distance <= 1 + known.len().max(name.len()) / 4)
        .min()
        .map(|(_, known)| format!("; did you mean `{known}`?"))
        .unwrap_or_default()
}
