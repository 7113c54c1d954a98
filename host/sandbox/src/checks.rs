//! Checks of a plugin's results against the schemas that it brings.
//!
//! Small values are checked where they arrive. Everything else is done by a few threads that serve nothing else: one
//! plugin after the other, so that none makes the others wait for all of its values, and no one waits for these
//! threads, neither a caller whose time is up nor the end of the process. Each piece of work ends by itself, because it
//! is weighed before it begins.

use crate::schedule::fair::{Share, lower_priority};
use opcell_schema::{MAX_STEPS, Schema, Weight};
use opcell_types::Value;
use serde_json::error::Category;
use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, LazyLock, Mutex, PoisonError},
    thread,
};
use tokio::sync::oneshot;

/// The longest text that is parsed where others wait.
const QUICK_BYTES: usize = 16 << 10;

/// Threads for checks. They are as many as one host needs: what waits for them holds the permits of its cell meanwhile.
const THREADS: usize = 2;

/// The value of a text, if it is small and fits for certain: what most arguments and results are. Nothing is said of
/// any other text.
pub(crate) fn quick(schema: &Schema, text: &str, most: u64) -> Option<Value> {
    if !schema.is_plain() || text.len() > QUICK_BYTES || Weight::most(text) > most {
        return None;
    }
    Value::from_json(text).ok().filter(|value| schema.surely_fits(value))
}

/// Returns `true` if a text fits for certain, and is found out soon. Where the value that it was written of is at hand,
/// the text need not be read.
pub(crate) fn surely_fits(schema: &Schema, value: Option<&Value>, text: &str, most: u64) -> bool {
    text.len() <= QUICK_BYTES
        && Weight::most(text) <= most
        && value.map_or_else(|| schema.surely_fits_text(text), |value| schema.surely_fits(value))
}

/// Parses a text and checks that the value fits; the message names the first violation with its place. As a value it
/// may cost no more than `most` bytes of memory.
pub(crate) async fn parse(
    share: &Arc<Share>,
    schema: &Arc<Schema>,
    text: Arc<str>,
    most: u64,
) -> Result<Value, String> {
    parse_as(share, schema, text, most, |_, value, _| value).await
}

/// Checks that arguments fit, as [`parse`] does. Returns the text that the plugin gets where it is another one: with
/// `5.0` and `1e3` as integers where the schema says integer. JSON Schema takes them for integers, and readers of most
/// languages do not.
pub(crate) async fn check_arguments(
    share: &Arc<Share>,
    schema: &Arc<Schema>,
    text: Arc<str>,
    most: u64,
) -> Result<Option<Arc<str>>, String> {
    let rewritten = |schema: &Schema, _, tree: Option<serde_json::Value>| {
        tree.and_then(|mut tree| schema.write_integers(&mut tree).then(|| tree.to_string().into()))
    };
    parse_as(share, schema, text, most, rewritten).await
}

/// Parses and checks a text, and makes something of the value; its tree is there where the validator needed it.
async fn parse_as<T: Send + 'static>(
    share: &Arc<Share>,
    schema: &Arc<Schema>,
    text: Arc<str>,
    most: u64,
    make: fn(&Schema, Value, Option<serde_json::Value>) -> T,
) -> Result<T, String> {
    let weight = Weight::of(&text);
    if weight.bytes > most {
        return Err(format!(
            "it has {} values, which would take {} KiB of the host's memory, more than {} KiB (limit `memory`)",
            weight.values,
            weight.bytes >> 10,
            most >> 10
        ));
    }
    if text.len() <= QUICK_BYTES && schema.is_quick(&text, weight) {
        return checked(schema, &text, |_| Ok(())).map(|(value, tree)| make(schema, value, tree));
    }
    let schema = Arc::clone(schema);
    let check = move || {
        let (value, tree) = checked(&schema, &text, |value| schema.check_cost(value, MAX_STEPS))?;
        Ok(make(&schema, value, tree))
    };
    apart(share, check).await.unwrap_or_else(|| Err("the schema cannot be checked".to_owned()))
}

/// The value of a text that fits. `affordable` is asked before the validator is, which works on a tree of its own.
fn checked(
    schema: &Schema,
    text: &str,
    affordable: impl FnOnce(&serde_json::Value) -> Result<(), String>,
) -> Result<(Value, Option<serde_json::Value>), String> {
    let value = Value::from_json(text).map_err(|error| match error.classify() {
        Category::Data => error.to_string(),
        _ => format!("it is not JSON: {error}"),
    })?;
    if schema.surely_fits(&value) {
        return Ok((value, None));
    }
    let tree = serde_json::Value::from(&value);
    affordable(&tree)?;
    schema.check(&tree).map(|()| (value, Some(tree)))
}

/// Does work on the threads for checks; `None` when it panicked. Whoever stops waiting is not kept, and work that has
/// not begun then is not done.
pub(crate) async fn apart<T: Send + 'static>(
    share: &Arc<Share>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, end) = oneshot::channel();
    let job = move || {
        if done.is_closed() {
            return;
        }
        if let Ok(result) = catch_unwind(AssertUnwindSafe(work)) {
            let _ = done.send(result);
        }
    };
    CHECKS.push(share.id(), Box::new(job));
    end.await.ok()
}

type Job = Box<dyn FnOnce() + Send>;

struct Checks {
    waiting: Mutex<Waiting>,
    more: Condvar,
}

#[derive(Default)]
struct Waiting {
    /// A line for each plugin; the first is served next, and goes to the end.
    lines: VecDeque<(u64, VecDeque<Job>)>,
    threads: usize,
}

static CHECKS: LazyLock<Checks> = LazyLock::new(|| Checks { waiting: Mutex::default(), more: Condvar::new() });

impl Checks {
    fn push(&'static self, share: u64, job: Job) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        match waiting.lines.iter_mut().find(|(id, _)| *id == share) {
            Some((_, line)) => line.push_back(job),
            None => waiting.lines.push_back((share, VecDeque::from([job]))),
        }
        if waiting.threads < THREADS && self.start() {
            waiting.threads += 1;
        }
        drop(waiting);
        self.more.notify_one();
    }

    fn start(&'static self) -> bool {
        let work = || {
            lower_priority();
            loop {
                self.next()();
            }
        };
        let named = thread::Builder::new().name("opcell-checks".to_owned());
        named.spawn(work).inspect_err(|error| tracing::error!(%error, "no thread for checks")).is_ok()
    }

    fn next(&self) -> Job {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some((share, mut line)) = waiting.lines.pop_front()
                && let Some(job) = line.pop_front()
            {
                if !line.is_empty() {
                    waiting.lines.push_back((share, line));
                }
                return job;
            }
            waiting = self.more.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn any() -> Arc<Schema> {
        Arc::new(Schema::parse("{}").unwrap().1)
    }

    #[tokio::test]
    async fn a_value_that_would_take_too_much_memory_is_not_parsed() {
        let text: Arc<str> = format!("[{}]", vec![r#"{"a":1}"#; 50_000].join(",")).into();
        let share = Share::new();
        let error = parse(&share, &any(), Arc::clone(&text), 1 << 20).await.unwrap_err();
        assert!(error.contains("limit `memory`"), "{error}");
        assert!(parse(&share, &any(), text, 64 << 20).await.is_ok());
    }

    #[tokio::test]
    async fn whole_numbers_reach_plugins_as_integers_where_the_schema_says_so() {
        let schema = r#"{"properties": {"n": {"type": "integer"}, "x": {"type": "number"}}}"#;
        let schema = Arc::new(Schema::parse(schema).unwrap().1);
        let share = Share::new();
        let written = async |text: &str| check_arguments(&share, &schema, text.into(), 1 << 20).await;
        assert_eq!(written(r#"{"n": 5.0, "x": 5.0}"#).await.unwrap().as_deref(), Some(r#"{"n":5,"x":5.0}"#));
        assert_eq!(written(r#"{"n": 5, "x": 5.0}"#).await, Ok(None));
        assert!(written(r#"{"n": 5.5}"#).await.is_err());
    }

    #[tokio::test]
    async fn one_plugin_does_not_wait_for_all_the_values_of_another() {
        let (greedy, modest) = (Share::new(), Share::new());
        let slow = || thread::sleep(Duration::from_millis(20));
        let greedy: Vec<_> = (0..40)
            .map(|_| {
                tokio::spawn({
                    let share = Arc::clone(&greedy);
                    async move { apart(&share, slow).await }
                })
            })
            .collect();
        tokio::task::yield_now().await;
        assert_eq!(apart(&modest, || 5).await, Some(5));
        assert!(greedy.iter().filter(|check| !check.is_finished()).count() > 20);
    }

    #[tokio::test]
    async fn work_that_panics_gives_no_result_and_costs_no_thread() {
        let share = Share::new();
        for _ in 0..3 * THREADS {
            assert_eq!(apart(&share, || std::panic::resume_unwind(Box::new("expected"))).await, None::<()>);
        }
        assert_eq!(apart(&share, || 1).await, Some(1));
    }
}
