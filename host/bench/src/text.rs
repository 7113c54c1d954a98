//! Names and figures as short texts.

/// Returns at most `most` letters of a text; an ellipsis is the last one of a longer text.
#[must_use]
pub fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// Returns a figure with three significant digits, as many as a measurement gives.
#[must_use]
pub fn digits(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}
