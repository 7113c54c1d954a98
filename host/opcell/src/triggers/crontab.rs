//! The part of crontabs on which all of their readers agree. What some refuse, or read as other instants, is refused
//! with a sentence: a schedule that was copied from elsewhere must not silently mean something else here.

/// A field of an expression.
struct Field {
    name: &'static str,
    least: u32,
    most: u32,
    names: &'static [&'static str],
}

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const FIELDS: [Field; 6] = [
    Field { name: "second", least: 0, most: 59, names: &[] },
    Field { name: "minute", least: 0, most: 59, names: &[] },
    Field { name: "hour", least: 0, most: 23, names: &[] },
    Field { name: "day of the month", least: 1, most: 31, names: &[] },
    Field { name: "month", least: 1, most: 12, names: &MONTHS },
    // Sunday is 0 and 7.
    Field { name: "day of the week", least: 0, most: 7, names: &DAYS },
];

/// Checks an expression of five fields, or six with seconds.
///
/// # Errors
/// One sentence about the first part that not all readers take, or take alike.
pub(super) fn check(text: &str) -> Result<(), String> {
    if let Some(word) = text.trim().strip_prefix('@') {
        let fields = match word.to_ascii_lowercase().as_str() {
            "hourly" => "`0 * * * *`",
            "daily" | "midnight" => "`0 0 * * *`",
            "weekly" => "`0 0 * * 0`",
            "monthly" => "`0 0 1 * *`",
            "yearly" | "annually" => "`0 0 1 1 *`",
            _ => {
                return Err(format!(
                    "`@{word}` is a word of some crontabs only: write five fields, such as `0 0 * * *`"
                ));
            }
        };
        return Err(format!("`@{word}` is a word of some crontabs only: write its five fields, {fields}"));
    }
    let parts: Vec<&str> = text.split_ascii_whitespace().collect();
    if let Some((variable, zone)) = parts.first().and_then(|first| first.split_once('='))
        && ["TZ", "CRON_TZ"].contains(&variable)
    {
        return Err(format!(
            "`{variable}=` is a setting of some crontabs only: leave it out, and write `zone = \"{zone}\"` beside `cron`"
        ));
    }
    if let Some(at) = text.find('#').filter(|at| text.get(..*at).is_some_and(|before| before.ends_with([' ', '\t']))) {
        let comment = text.get(at..).unwrap_or_default().trim();
        return Err(format!("`{comment}` is a comment, which a cron expression cannot contain: remove it"));
    }
    let Some(skipped) = FIELDS.len().checked_sub(parts.len()).filter(|skipped| *skipped <= 1) else {
        return Err(format!(
            "it has {} field{}, and five are expected (minute, hour, day of the month, month, day of the week), or six \
             with seconds before them",
            parts.len(),
            if parts.len() == 1 { "" } else { "s" }
        ));
    };
    for (field, part) in FIELDS.iter().skip(skipped).zip(&parts) {
        if part.split(',').count() > 1 && part.split(',').any(|item| item == "*") {
            let name = field.name;
            return Err(format!("`{part}`, the {name}: `*` in a list is every value already: write `*` alone"));
        }
        for item in part.split(',') {
            field.check(item)?;
        }
    }
    let (week, month) = (parts.last().copied().unwrap_or("*"), parts.iter().rev().nth(2).copied().unwrap_or("*"));
    let (restricts_month, restricts_week) = (month != "*", week != "*");
    let steps = [month, week].into_iter().find(|day| day.starts_with("*/"));
    match steps {
        Some(steps) if restricts_month && restricts_week => Err(format!(
            "with both days given, some crontabs take `{steps}` for every day and others do not: name the days, such as \
             `1-31/2`"
        )),
        _ => Ok(()),
    }
}

impl Field {
    fn check(&self, item: &str) -> Result<(), String> {
        let Self { name, least, most, .. } = self;
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (item, None),
        };
        let (from, to) = match range.split_once('-') {
            _ if range == "*" => (*least, *most),
            None => {
                let value = self.value(range, item)?;
                if let Some(step) = step {
                    return Err(format!(
                        "`{item}`, the {name}, begins at {value} in some crontabs and is refused by others: write \
                         `{value}-{most}/{step}`"
                    ));
                }
                (value, value)
            }
            Some((from, to)) => (self.value(from, item)?, self.value(to, item)?),
        };
        if from > to {
            // Sunday is written once.
            let (first, last) = if *name == "day of the week" { (from % 7, 6) } else { (from, *most) };
            let range = |from: u32, to: u32| if from == to { from.to_string() } else { format!("{from}-{to}") };
            let forwards = match first <= to {
                true => range(first, to),
                false => format!("{},{}", range(first, last), range(*least, to)),
            };
            return Err(format!(
                "`{item}`, the {name}, runs backwards, which many crontabs refuse: write `{forwards}`"
            ));
        }
        let Some(step) = step else { return Ok(()) };
        let every = number(step).filter(|step| *step > 0);
        let every =
            every.ok_or_else(|| format!("`{item}`, the {name}: a step is a whole number from 1, not `{step}`"))?;
        // Sunday is one day, whichever of its numbers is written.
        let span = if range == "*" && *name == "day of the week" { 6 } else { to - from };
        if every > span.max(1) {
            let meant = match *name {
                "minute" if every == 60 => "; every hour is `0 * …`".to_owned(),
                "minute" if every % 60 == 0 && every < 24 * 60 => {
                    let hours = every / 60;
                    format!("; every {hours} hours is `0 */{hours} …`")
                }
                _ => String::new(),
            };
            return Err(format!(
                "`{item}`, the {name}, has a step of {every} where there are only {from} to {to}: it would not come every \
                 {every}, but at {from} alone{meant}"
            ));
        }
        Ok(())
    }

    /// A number of the field, or one of its names.
    fn value(&self, text: &str, item: &str) -> Result<u32, String> {
        let Self { name, least, most, names } = self;
        let lower = text.to_ascii_lowercase();
        if let Some(at) = names.iter().position(|name| *name == lower) {
            return Ok(u32::try_from(at).unwrap_or(0) + if *name == "month" { 1 } else { 0 });
        }
        let value = number(text).ok_or_else(|| match text.is_empty() {
            true => format!("the {name} has an empty part in `{item}`"),
            false => format!(
                "`{item}`, the {name}: expected a number from {least} to {most}, a range, `*` or a step, not `{text}`"
            ),
        })?;
        match (*least..=*most).contains(&value) {
            true => Ok(value),
            false => Err(format!("`{item}`, the {name}: {value} is not between {least} and {most}")),
        }
    }
}

/// Digits, and few of them.
fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.len() <= 6 && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn what_every_crontab_takes_is_taken() {
        for text in [
            "* * * * *",
            "*/15 * * * *",
            "0 3 * * 1-5",
            "30 3 29 2 *",
            "0 0 1,15 * *",
            "0 0 1 1 0",
            "0 0 * * 7",
            "0 9-17/2 * JAN-mar MON",
            "*/59 * * * *",
            "5-59/15 * * * *",
            "0 0 1-31/2 * 1",
            "0 0 */2 * *",
            "0 0 * * */2",
            "0 0 13 * 5",
            "0 30 3 * * *",
            "*/10 * * * * *",
            "  0\t3 * * *  ",
        ] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn what_crontabs_refuse_or_read_otherwise_is_an_error_with_a_sentence() {
        for (text, says) in [
            ("*/90 * * * *", "step of 90 where there are only 0 to 59"),
            ("*/60 * * * *", "every hour is `0 * …`"),
            ("*/120 * * * *", "every 2 hours is `0 */2 …`"),
            ("0 */24 * * *", "step of 24 where there are only 0 to 23"),
            ("0 0 */32 * *", "step of 32"),
            ("0 0 1 */13 *", "step of 13"),
            ("0 0 * * */7", "step of 7"),
            ("10-20/15 * * * *", "step of 15 where there are only 10 to 20"),
            ("*/90 * * * * *", "the second, has a step of 90"),
            ("5/15 * * * *", "write `5-59/15`"),
            ("0 22-3 * * *", "write `22-23,0-3`"),
            ("0 0 * * FRI-MON", "write `5-6,0-1`"),
            ("0 0 * * SAT-SUN", "write `6,0`"),
            ("0 0 * * 7-1", "write `0-1`"),
            ("TZ=Europe/Berlin 0 3 * * *", "write `zone = \"Europe/Berlin\"`"),
            ("CRON_TZ=UTC 0 3 * * *", "`CRON_TZ=` is a setting"),
            ("0 3 * * * # nightly", "`# nightly` is a comment"),
            ("*/0 * * * *", "whole number from 1"),
            ("*/-5 * * * *", "whole number from 1"),
            ("*/1.5 * * * *", "whole number from 1"),
            ("60 * * * *", "60 is not between 0 and 59"),
            ("0 24 * * *", "24 is not between 0 and 23"),
            ("0 0 0 * *", "0 is not between 1 and 31"),
            ("0 0 * * 8", "8 is not between 0 and 7"),
            ("0 0 ? * 1", "not `?`"),
            ("0 0 L * *", "not `L`"),
            ("0 0 15W * *", "not `15W`"),
            ("0 0 * * 5#2", "not `5#2`"),
            ("0 0 * * 5L", "not `5L`"),
            ("0 0 1 * +MON", "not `+MON`"),
            ("1,,2 * * * *", "empty part"),
            ("1,* * * * *", "`*` in a list is every value already"),
            ("*", "it has 1 field,"),
            ("0 0 */2 * 1", "take `*/2` for every day"),
            ("0 0 1 * */2", "take `*/2` for every day"),
            ("@daily", "word of some crontabs only: write its five fields, `0 0 * * *`"),
            ("@Hourly", "write its five fields, `0 * * * *`"),
            ("@annually", "write its five fields, `0 0 1 1 *`"),
            ("@reboot", "write five fields, such as"),
            ("@every 5m", "write five fields, such as"),
            ("every day", "it has 2 fields"),
            ("0 0 1 1 * 2026 2027", "it has 7 fields"),
            ("", "it has 0 fields"),
            ("H * * * *", "not `H`"),
        ] {
            let error = check(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
