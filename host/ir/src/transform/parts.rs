//! Long arrays in parts, which run at the same time on the workers that the shell lends.
//!
//! The result does not depend on how the elements are divided: the parts are put together in order. Without workers,
//! there is one part.

use opcell_types::Value;
use std::{
    cmp::Ordering,
    num::NonZero,
    sync::{LazyLock, Mutex, PoisonError},
    thread::{self, Builder},
};

/// Elements that are worth a thread: some milliseconds of work, where starting one takes a twentieth of that.
const SHARE: usize = 8_192;

/// The maximum number of threads that work on one array; other runs need threads too.
const THREADS: usize = 4;

/// Processors that this program may use; finding out reads files.
static PROCESSORS: LazyLock<usize> = LazyLock::new(|| thread::available_parallelism().map_or(1, NonZero::get));

/// Returns the number of parts for this number of elements.
pub(super) fn count(elements: usize) -> usize {
    (elements / SHARE).min(*PROCESSORS).clamp(1, THREADS)
}

/// Returns the length of each part for this number of elements.
fn part(elements: usize) -> usize {
    elements.div_ceil(count(elements)).max(1)
}

/// Computes the result of each part of the elements, in order. `work` is given the position of the part's first
/// element.
pub(super) fn each<'v, T: Send>(items: &'v [Value], work: impl Fn(usize, &'v [Value]) -> T + Sync) -> Vec<T> {
    let part = part(items.len());
    if items.len() <= part {
        return vec![work(0, items)];
    }
    let work = &work;
    let jobs = items.chunks(part).enumerate().map(|(at, items)| move || work(at * part, items));
    side_by_side(jobs)
}

/// Sorts by an order in which no two elements are equal.
pub(super) fn sort_by<T: Send>(items: &mut [T], compare: impl Fn(&T, &T) -> Ordering + Sync) {
    let part = part(items.len());
    if items.len() <= part {
        return items.sort_unstable_by(compare);
    }
    let order = &compare;
    side_by_side(items.chunks_mut(part).map(|items| move || items.sort_unstable_by(order)));
    // Parts that are in order are merged; that is what the stable sort looks for first.
    items.sort_by(compare);
}

/// Does all jobs at the same time; returns their results, in order.
fn side_by_side<T: Send, J: FnOnce() -> T + Send>(jobs: impl Iterator<Item = J>) -> Vec<T> {
    let jobs: Vec<Mutex<Option<J>>> = jobs.map(|job| Mutex::new(Some(job))).collect();
    let run = |job: &Mutex<Option<J>>| {
        let job = job.lock().unwrap_or_else(PoisonError::into_inner).take();
        job.map(|job| job())
    };
    thread::scope(|scope| {
        let others: Vec<_> = jobs
            .iter()
            .skip(1)
            .map(|job| (job, Builder::new().name("opcell-transform".to_owned()).spawn_scoped(scope, move || run(job))))
            .collect();
        let first = jobs.first().and_then(run);
        let others = others.into_iter().filter_map(|(job, thread)| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            // The machine has no thread left for us.
            Err(_) => run(job),
        });
        first.into_iter().chain(others).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_put_together_in_order() {
        let items: Vec<Value> = (0..100_000_i64).map(Value::from).collect();
        let parts = each(&items, |from, items| (from, items.to_vec()));
        let mut next = 0;
        for (from, _) in &parts {
            assert!(*from == next, "{from} follows {next}");
            next += parts.iter().find(|part| part.0 == *from).map_or(0, |part| part.1.len());
        }
        assert_eq!(parts.into_iter().flat_map(|part| part.1).collect::<Vec<_>>(), items);
    }

    #[test]
    fn what_is_sorted_in_parts_is_sorted() {
        let mut items: Vec<(u64, usize)> = (0..100_003_u64).map(|at| at * 7_919 % 1_009).zip(0..).collect();
        let mut expected = items.clone();
        expected.sort();
        sort_by(&mut items, Ord::cmp);
        assert_eq!(items, expected);
    }

    #[test]
    fn jobs_end_in_the_order_in_which_they_were_given() {
        assert_eq!(side_by_side((0..20).map(|at| move || at)), (0..20).collect::<Vec<_>>());
        assert_eq!(side_by_side(std::iter::empty::<fn() -> u8>()), [0; 0]);
    }
}
