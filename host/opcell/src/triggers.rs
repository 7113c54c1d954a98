//! Triggers, which start runs or send them signals without a person: schedules and webhooks of the project file.
//!
//! This module says what a trigger is, and when a schedule is due; `opcell serve` asks it and acts. Whatever a trigger
//! does has a key, so that two servers on one journal, or one that was killed, do it once.

mod crontab;

use crate::http::SecretSource;
use croner::{
    Cron,
    parser::{CronParser, Seconds, Year},
};
use indexmap::IndexMap;
use jiff::{Timestamp, tz::TimeZone};
use opcell_types::{Value, value::Map};
use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

/// The delay after which an instant counts as missed: a server was not there, or a machine slept.
const MISSED_AFTER: Duration = Duration::from_secs(60);

/// The most missed instants that are made up for, the newest ones.
pub const MOST_MISSED: usize = 100;

/// The longest a webhook's request may be on its way, unless the project file says otherwise.
pub const DEFAULT_WINDOW: Duration = Duration::from_secs(300);

/// Starts runs, or sends them signals.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Trigger {
    /// Its name in the project.
    pub name: Arc<str>,
    /// The source that sets it off.
    pub source: TriggerSource,
    /// The action.
    pub action: TriggerAction,
    /// The input of the run or the data of the signal, whatever sets it off.
    pub input: Map,
}

/// The source that sets a trigger off.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum TriggerSource {
    /// The time.
    Cron(Schedule),
    /// A signed request.
    Webhook(Webhook),
}

/// The action of a trigger.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TriggerAction {
    /// Starts a run.
    Start {
        /// Name of the workflow.
        workflow: Arc<str>,
    },
    /// Sends a signal.
    Signal {
        /// The signal's name.
        signal: Arc<str>,
        /// The run that receives it.
        run: RunName,
    },
}

/// The name of the run that a trigger starts.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunName {
    /// It is always this one.
    Fixed(Arc<str>),
    /// The request's body has it.
    Body(Pointer),
}

impl Trigger {
    /// The run that the trigger starts at an instant; its ID is its idempotency key.
    #[must_use]
    pub fn scheduled_run(&self, instant: Timestamp) -> Arc<str> {
        format!("{}{instant}", self.scheduled_prefix()).into()
    }

    /// Returns the prefix of the IDs of all runs that the schedule starts.
    #[must_use]
    pub fn scheduled_prefix(&self) -> String {
        format!("cron:{}:", self.name)
    }

    /// Returns the prefix of the IDs of all runs that the trigger starts.
    #[must_use]
    pub fn run_prefix(&self) -> String {
        match self.source {
            TriggerSource::Cron(_) => self.scheduled_prefix(),
            TriggerSource::Webhook(_) => format!("hook:{}:", self.name),
        }
    }

    /// When the schedule started a run, by the run's ID.
    #[must_use]
    pub fn instant_of(&self, run: &str) -> Option<Timestamp> {
        run.strip_prefix(&self.scheduled_prefix())?.parse().ok()
    }

    /// Returns the input of a run, or the data of a signal, for a request with this body.
    ///
    /// # Errors
    /// When the body lacks something that the project file takes from it.
    pub fn input_of(&self, body: &Value) -> Result<Value, MissingPart> {
        let TriggerSource::Webhook(webhook) = &self.source else { return Ok(Value::from(self.input.clone())) };
        if webhook.body.is_empty() && self.input.is_empty() {
            return Ok(body.clone());
        }
        let mut input = self.input.clone();
        for (key, pointer) in &webhook.body {
            input.insert(key.as_str().into(), pointer.find(body)?.clone());
        }
        Ok(Value::from(input))
    }
}

/// Returns `true` if an ID belongs to runs that triggers start, so that no client may take it.
#[must_use]
pub fn is_trigger_run(run: &str) -> bool {
    run.starts_with("cron:") || run.starts_with("hook:")
}

/// A cron expression in a time zone.
#[derive(Debug, Clone)]
pub struct Schedule {
    text: Arc<str>,
    cron: Box<Cron>,
    zone: TimeZone,
    missed: Missed,
}

/// The treatment of instants at which no server ran. An instant counts as missed when it is more than a minute past.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Missed {
    /// Nothing.
    #[default]
    Skip,
    /// The last one of them counts.
    One,
    /// Each of them counts, the newest [`MOST_MISSED`].
    All,
}

/// A schedule that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// The expression cannot be read.
    #[error("`{text}` is not a cron expression: {problem}")]
    Expression {
        /// The expression.
        text: String,
        /// The problem.
        problem: String,
    },
    /// The expression means no moment.
    #[error("`{0}` never comes")]
    Never(String),
    /// The zone is not in the database.
    #[error("there is no time zone `{0}`")]
    Zone(String),
}

impl Schedule {
    /// Reads a cron expression: minute, hour, day of the month, month, day of the week, perhaps with seconds before
    /// them. Where both days are restricted, one of them is enough, as in every cron. In the hour that summer time
    /// leaves out, a fixed time comes at the end of the gap; in the hour that it repeats, a fixed time comes once.
    ///
    /// # Errors
    /// When it cannot be read, or never comes, or the time zone is unknown.
    pub fn new(text: &str, zone: &str, missed: Missed) -> Result<Self, ScheduleError> {
        crontab::check(text).map_err(|problem| ScheduleError::Expression { text: text.to_owned(), problem })?;
        let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
        let cron = parser.parse(text).map_err(|error| ScheduleError::Expression {
            text: text.to_owned(),
            problem: error.to_string().trim_end_matches('.').to_owned(),
        })?;
        let zone = TimeZone::get(zone).map_err(|_| ScheduleError::Zone(zone.to_owned()))?;
        let schedule = Self { text: text.into(), cron: Box::new(cron), zone, missed };
        match schedule.next(Timestamp::UNIX_EPOCH) {
            Some(_) => Ok(schedule),
            None => Err(ScheduleError::Never(text.to_owned())),
        }
    }

    /// The expression as it is written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The time zone in which it is read.
    #[must_use]
    pub fn zone(&self) -> &TimeZone {
        &self.zone
    }

    /// Returns the treatment of missed instants.
    #[must_use]
    pub fn missed(&self) -> Missed {
        self.missed
    }

    /// The first instant after `after`.
    #[must_use]
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        self.cron.find_next_occurrence(&after.to_zoned(self.zone.clone()), false).ok().map(|next| next.timestamp())
    }

    /// Returns the instants that are due at `now`, oldest first, when everything up to `done` is done.
    #[must_use]
    pub fn due(&self, done: Timestamp, now: Timestamp) -> Vec<Timestamp> {
        let missed_before = now.checked_sub(MISSED_AFTER).unwrap_or(Timestamp::MIN);
        let most = match self.missed {
            Missed::Skip => 0,
            Missed::One => 1,
            Missed::All => MOST_MISSED,
        };
        // Backwards from now: a long absence is not walked through.
        let mut due = Vec::new();
        let mut missed = 0;
        let mut at = now.to_zoned(self.zone.clone());
        let mut inclusive = true;
        while let Ok(found) = self.cron.find_previous_occurrence(&at, inclusive) {
            let instant = found.timestamp();
            missed += usize::from(instant < missed_before);
            if instant <= done || missed > most {
                break;
            }
            due.push(instant);
            (at, inclusive) = (found, false);
        }
        due.reverse();
        due
    }
}

impl Schedule {
    /// The instants that nothing was done at, though the schedule was at work before them: newest first, and at most
    /// [`MOST_MISSED`]. `done` are the instants that something was done at, as far as that is still known; what is not
    /// yet a minute late is not missed.
    #[must_use]
    pub fn missed_since(&self, done: &BTreeSet<Timestamp>, now: Timestamp) -> Vec<Timestamp> {
        let mut missed = Vec::new();
        let Some(first) = done.first() else { return missed };
        let mut at = now.checked_sub(MISSED_AFTER).unwrap_or(Timestamp::MIN).to_zoned(self.zone.clone());
        // Only this many are looked at: a schedule of every second has an instant for each second of last year.
        for _ in 0..10 * MOST_MISSED {
            let Ok(found) = self.cron.find_previous_occurrence(&at, false) else { break };
            let instant = found.timestamp();
            if instant < *first || missed.len() == MOST_MISSED {
                break;
            }
            if !done.contains(&instant) {
                missed.push(instant);
            }
            at = found;
        }
        missed
    }
}

/// The requests that set a trigger off.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Webhook {
    /// The way requests are signed.
    pub signature: Signature,
    /// Each signs as well as any other, so that a new one can be introduced before the old one goes.
    pub secrets: Vec<SecretSource>,
    /// The maximum age of a request, where the signature covers its time.
    pub window: Duration,
    /// The parts of the body that the input takes, by its key.
    pub body: IndexMap<String, Pointer>,
    /// The events that count; all of them if empty.
    pub on: Vec<EventName>,
}

impl Webhook {
    /// Requests that are signed with any of these; the whole body is the input.
    #[must_use]
    pub fn new(signature: Signature, secrets: Vec<SecretSource>) -> Self {
        Self { signature, secrets, window: DEFAULT_WINDOW, body: IndexMap::new(), on: Vec::new() }
    }
}

/// The signature of a webhook's requests, with HMAC-SHA256.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Signature {
    /// [Standard Webhooks](https://www.standardwebhooks.com): `webhook-id`, `webhook-timestamp`, `webhook-signature`
    /// over `ID.TIMESTAMP.BODY`, or the same under Svix's names, `svix-id` and so on. The ID is the key: a request that
    /// comes again does nothing.
    #[default]
    Standard,
    /// GitHub's `x-hub-signature-256` over the body alone. It covers neither a time nor an ID, so the body is the key.
    Github,
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Standard => "standard",
            Self::Github => "github",
        })
    }
}

/// An event of a sender, or all whose names begin with it: `issues` is `issues.opened` too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventName(Arc<str>);

/// A text that names no event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a name of an event")]
pub struct InvalidEventName(String);

impl EventName {
    /// Returns `true` if an event is this one, or one of these.
    #[must_use]
    pub fn matches(&self, event: &str) -> bool {
        let name = self.0.strip_suffix(".*").unwrap_or(&self.0);
        name == "*" || event.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }
}

impl std::str::FromStr for EventName {
    type Err = InvalidEventName;

    fn from_str(text: &str) -> Result<Self, InvalidEventName> {
        let is_part = |part: &str| {
            !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '/' | ':'))
        };
        let name = text.strip_suffix(".*").unwrap_or(text);
        let is_name = text.len() <= 200 && (text == "*" || name.split('.').all(is_part));
        is_name.then(|| Self(text.into())).ok_or_else(|| InvalidEventName(text.to_owned()))
    }
}

impl fmt::Display for EventName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A JSON Pointer (RFC 6901).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pointer {
    text: Arc<str>,
    parts: Vec<Arc<str>>,
}

/// A body lacks a part.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the body has nothing at `{0}`")]
pub struct MissingPart(Arc<str>);

/// A text that is not a JSON Pointer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a JSON Pointer: write `/issue/number`, or an empty text for the whole body")]
pub struct InvalidPointer(String);

impl std::str::FromStr for Pointer {
    type Err = InvalidPointer;

    fn from_str(text: &str) -> Result<Self, InvalidPointer> {
        let invalid = || InvalidPointer(text.to_owned());
        let mut parts = text.split('/');
        if parts.next() != Some("") {
            return Err(invalid());
        }
        let part = |part: &str| {
            let unescaped = part.replace("~1", "/").replace("~0", "~");
            let escapes = part.matches('~').count();
            let known = part.matches("~0").count() + part.matches("~1").count();
            (escapes == known).then(|| Arc::from(unescaped)).ok_or_else(invalid)
        };
        Ok(Self { text: text.into(), parts: parts.map(part).collect::<Result<_, _>>()? })
    }
}

impl Pointer {
    /// The part of a body.
    ///
    /// # Errors
    /// When it is not there.
    pub fn find<'a>(&self, body: &'a Value) -> Result<&'a Value, MissingPart> {
        self.parts.iter().try_fold(body, |value, part| {
            let inner = match value {
                Value::Array(items) => index(part).and_then(|at| items.get(at)),
                value => value.get(part),
            };
            inner.ok_or_else(|| MissingPart(self.text.clone()))
        })
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// An index as RFC 6901 writes it: digits without a leading zero.
fn index(part: &str) -> Option<usize> {
    let plain = part == "0" || !part.starts_with('0');
    (plain && part.bytes().all(|byte| byte.is_ascii_digit())).then(|| part.parse().ok()).flatten()
}

#[cfg(test)]
mod tests;
