//! Long arrays in parts, each on a thread of its own.
//!
//! What comes of the elements does not depend on how they are divided: the parts are put together in order. Threads
//! live as long as the call. Where none can be had, the work is done here.

use opcell_types::{Value, workers};
use std::{
    cmp::Ordering,
    sync::{Mutex, PoisonError},
};

/// Elements that are worth a part of their own: some milliseconds of work, where starting a thread takes a twentieth of
/// that.
const MIN_PART_ELEMENTS: usize = 8_192;

/// The maximum number of parts of one array; other runs need workers too.
const MAX_PARTS: usize = 4;

/// Returns the number of parts for this number of elements.
pub(super) fn count(elements: usize) -> usize {
    let parallelism = workers::lent().map_or(1, |workers| workers.parallelism());
    (elements / MIN_PART_ELEMENTS).min(parallelism).clamp(1, MAX_PARTS)
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

/// A job until it is taken, and its result once it has one.
type Job<J, T> = (Mutex<Option<J>>, Mutex<Option<T>>);

/// Does all jobs at the same time, the first of them on this thread; what they came to, in order.
fn side_by_side<T: Send, J: FnOnce() -> T + Send>(jobs: impl Iterator<Item = J>) -> Vec<T> {
    let jobs: Vec<Job<J, T>> = jobs.map(|job| (Mutex::new(Some(job)), Mutex::new(None))).collect();
    let tasks: Vec<_> = jobs
        .iter()
        .map(|(job, result)| {
            move || {
                let job = job.lock().unwrap_or_else(PoisonError::into_inner).take();
                *result.lock().unwrap_or_else(PoisonError::into_inner) = job.map(|job| job());
            }
        })
        .collect();
    match workers::lent() {
        Some(workers) => {
            let tasks: Vec<&(dyn Fn() + Sync)> = tasks.iter().map(|task| task as _).collect();
            workers.run(&tasks);
        }
        None => tasks.iter().for_each(|task| task()),
    }
    drop(tasks);
    jobs.into_iter().filter_map(|(_, result)| result.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_put_together_in_order() {
        opcell_workers::install();
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
        opcell_workers::install();
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
