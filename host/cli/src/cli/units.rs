//! Amounts as people read them, and columns that hold whatever is in them.

use console::measure_text_width;
use std::{borrow::Cow, time::Duration};

/// Reads how long something may measure: seconds, also parts of one, at most an hour.
pub fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=3_600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("expected seconds from 0.1 to 3600, such as `0.5`".to_owned()),
    }
}

/// A duration in microseconds: `27 µs`, `12.3 ms`, `4.2 s`, `3 min 20 s`, `2 h 5 min`.
pub fn duration(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..1_000_000 => format!("{}.{} ms", us / 1_000, us % 1_000 / 100),
        1_000_000..60_000_000 => format!("{}.{} s", us / 1_000_000, us % 1_000_000 / 100_000),
        60_000_000..3_600_000_000 => format!("{} min {} s", us / 60_000_000, us % 60_000_000 / 1_000_000),
        _ => format!("{} h {} min", us / 3_600_000_000, us % 3_600_000_000 / 60_000_000),
    }
}

/// A duration in milliseconds, fractions included.
pub fn milliseconds(ms: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative; saturates")]
    duration((ms.max(0.0) * 1_000.0) as u64)
}

/// Returns the time since something happened, in the largest unit that fits: `now`, `12 s ago`, `3 min ago`, `5 h ago`,
/// `2 days ago`.
pub fn ago(us: i64) -> String {
    let seconds = us.max(0) / 1_000_000;
    match seconds {
        0 => "now".to_owned(),
        1..60 => format!("{seconds} s ago"),
        60..3_600 => format!("{} min ago", seconds / 60),
        3_600..86_400 => format!("{} h ago", seconds / 3_600),
        86_400..172_800 => "1 day ago".to_owned(),
        _ => format!("{} days ago", seconds / 86_400),
    }
}

/// Bytes: `43 B`, `576 KiB`, `1.5 MiB`.
pub fn bytes(n: u64) -> String {
    match n {
        0..1024 => format!("{n} B"),
        1024..0x10_0000 => format!("{} KiB", n.div_ceil(1024)),
        _ => format!("{}.{} MiB", n >> 20, ((n & 0xf_ffff) * 10) >> 20),
    }
}

/// A number and its noun: `1 visit`, `2 visits`.
pub fn counted(n: u64, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// The alignment of a column's cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// Rows as lines whose columns are as wide as their widest cell; columns without any text are left out.
pub fn columns(rows: &[Vec<String>], aligns: &[Align]) -> Vec<String> {
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| measure_text_width(cell)).max();
    let widths: Vec<usize> = (0..aligns.len()).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let mut line = String::new();
        for ((cell, width), align) in row.iter().zip(&widths).zip(aligns).filter(|((_, width), _)| **width > 0) {
            if !line.is_empty() {
                line.push_str("  ");
            }
            let pad = " ".repeat(width.saturating_sub(measure_text_width(cell)));
            match align {
                Align::Right => line.extend([pad.as_str(), cell]),
                Align::Left => line.extend([cell.as_str(), &pad]),
            }
        }
        line.truncate(line.trim_end().len());
        line
    };
    rows.iter().map(line).collect()
}

/// The same within a width: of the columns that may be missing, those are left out, one after the other, without which
/// the rest fits.
pub fn columns_within(rows: &[Vec<String>], aligns: &[Align], width: usize, may_be_missing: &[usize]) -> Vec<String> {
    let mut rows = rows.to_vec();
    for missing in may_be_missing {
        let lines = columns(&rows, aligns);
        if lines.iter().all(|line| measure_text_width(line) <= width) {
            break;
        }
        rows.iter_mut().filter_map(|row| row.get_mut(*missing)).for_each(String::clear);
    }
    columns(&rows, aligns)
}

/// A text of others with the lines after its first indented, so that none of them reads as a line of the command.
pub fn continued(text: &str) -> Cow<'_, str> {
    let Some((first, rest)) = text.trim_end().split_once('\n') else { return Cow::Borrowed(text) };
    let mut lines = first.to_owned();
    for line in rest.lines() {
        lines.push_str(if line.is_empty() { "\n" } else { "\n    " });
        lines.push_str(line);
    }
    Cow::Owned(lines)
}

/// A text after a first part, in lines of at most this width that are broken between words; those after the first are
/// indented as far as the first part reaches.
pub fn hanging(first: &str, text: &str, width: usize) -> String {
    let indent = measure_text_width(first);
    let (mut lines, mut used) = (first.to_owned(), indent);
    for word in text.split_whitespace() {
        let length = measure_text_width(word);
        if used > indent && used + 1 + length > width {
            lines.push('\n');
            lines.extend(std::iter::repeat_n(' ', indent));
            used = indent;
        } else if used > indent {
            lines.push(' ');
            used += 1;
        }
        lines.push_str(word);
        used += length;
    }
    lines
}

/// Bytes of a description in a list.
pub const DESCRIPTION_BYTES: usize = 100;

/// A text with each of its lines below what it belongs to.
pub fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_do_not_fit_are_left_out_and_texts_are_broken_between_words() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows = [row(["a-long-name", "1 s ago", "17"]), row(["b", "2 s ago", "3"])];
        let aligns = [Align::Left, Align::Left, Align::Right];
        assert_eq!(columns_within(&rows, &aligns, 80, &[2, 1]), columns(&rows, &aligns));
        assert_eq!(columns_within(&rows, &aligns, 20, &[2, 1]), ["a-long-name  1 s ago", "b            2 s ago"]);
        assert_eq!(columns_within(&rows, &aligns, 5, &[2, 1]), ["a-long-name", "b"]);
        assert_eq!(hanging("a/b  ", "Counts the words", 16), "a/b  Counts the\n     words");
        assert_eq!(hanging("a/b  ", "unbreakable", 8), "a/b  unbreakable");
    }

    #[test]
    fn seconds_may_have_a_fraction_and_have_bounds() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["0", "-1", "NaN", "3601", "a while", ""] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_duration_has_the_unit_that_fits_it() {
        let shown = [27, 12_345, 4_250_000, 200_000_000, 7_500_000_000].map(duration);
        assert_eq!(shown, ["27 µs", "12.3 ms", "4.2 s", "3 min 20 s", "2 h 5 min"]);
        assert_eq!(milliseconds(0.5), "500 µs");
    }

    #[test]
    fn the_past_is_told_in_its_largest_unit() {
        let shown = [-5, 12, 200, 7_500, 90_000, 200_000].map(|seconds: i64| ago(seconds * 1_000_000));
        assert_eq!(shown, ["now", "12 s ago", "3 min ago", "2 h ago", "1 day ago", "2 days ago"]);
    }

    #[test]
    fn columns_hold_names_of_any_length_and_lines_end_with_their_text() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows = [row(["a", "1 µs", ""]), row(["workflow/constant-routing", "12.3 ms", "timeout"])];
        assert_eq!(
            columns(&rows, &[Align::Left, Align::Right, Align::Left]),
            ["a                             1 µs", "workflow/constant-routing  12.3 ms  timeout"]
        );
    }
}
