//! The promises of every journal, as tests that any implementation runs: [`contract!`](crate::contract!) makes one test
//! of each.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "these functions are bodies of tests: a broken promise is a panic"
)]

use crate::{
    Append, ClockJump, Cut, DOUBT, Fence, Journal, JournalError, MAX_PAUSE, NewRun, Record, Retention, RunId, RunQuery,
    RunState, Snapshot,
};
use std::sync::Arc;

/// A record that says its own number.
#[must_use]
pub fn record(seq: u64) -> Record {
    Record {
        seq,
        kind: "happened".into(),
        version: 1,
        at: 1000 + seq.cast_signed(),
        payload: format!(r#"{{"n":{seq}}}"#).into(),
    }
}

/// An append of such records, and of nothing else.
#[must_use]
pub fn append(run: &RunId, fence: Fence, seqs: impl IntoIterator<Item = u64>) -> Append {
    Append {
        run: run.clone(),
        fence,
        records: seqs.into_iter().map(record).collect(),
        state: None,
        snapshot: None,
        inbox: None,
    }
}

fn ended(status: &'static str) -> Option<RunState> {
    Some(RunState { status: status.into(), ended: true, due: None })
}

/// Records are read back in the order in which they were appended.
pub async fn what_was_appended_is_read_back_in_order(journal: Arc<dyn Journal>) {
    let run: RunId = "r".into();
    let fence = journal.create(NewRun::empty(&run, "w", 5)).await.unwrap();
    journal.append(append(&run, fence, 1..=3)).await.unwrap();
    journal.append(append(&run, fence, 4..=4)).await.unwrap();
    assert_eq!(journal.read(&run, 0, 100).await.unwrap(), (1..=4).map(record).collect::<Vec<_>>());
    assert_eq!(journal.read(&run, 2, 1).await.unwrap(), [record(3)]);
    assert_eq!(journal.read(&run, 4, 1).await.unwrap(), []);
}

/// A gap or a repetition is refused and leaves nothing.
pub async fn a_gap_or_a_repetition_is_refused_and_leaves_nothing(journal: Arc<dyn Journal>) {
    let run: RunId = "r".into();
    let fence = journal.create(NewRun::empty(&run, "w", 0)).await.unwrap();
    journal.append(append(&run, fence, 1..=2)).await.unwrap();
    for seqs in [vec![2], vec![4], vec![3, 5]] {
        let error = journal.append(append(&run, fence, seqs)).await.unwrap_err();
        assert!(matches!(error, JournalError::OutOfOrder { .. }), "{error}");
    }
    assert_eq!(journal.read(&run, 0, 100).await.unwrap().len(), 2);
}

/// A run has one owner and a former owner cannot write.
pub async fn a_run_has_one_owner_and_a_former_owner_cannot_write(journal: Arc<dyn Journal>) {
    let run: RunId = "r".into();
    let first = journal.create(NewRun::empty(&run, "w", 0)).await.unwrap();
    assert!(matches!(journal.create(NewRun::empty(&run, "w", 0)).await, Err(JournalError::RunExists(_))));
    assert!(matches!(journal.acquire(&run, Cut::Tail).await, Err(JournalError::Held { .. })));
    journal.append(append(&run, first, 1..=1)).await.unwrap();
    journal.release(&run, first).await.unwrap();
    let second = journal.acquire(&run, Cut::Tail).await.unwrap();
    assert_eq!((second.records.len(), second.damage), (1, None));
    let error = journal.append(append(&run, first, 2..=2)).await.unwrap_err();
    assert!(matches!(error, JournalError::Fenced { .. }), "{error}");
    journal.release(&run, first).await.unwrap();
    journal.append(append(&run, second.fence, 2..=2)).await.unwrap();
    assert!(
        matches!(journal.acquire(&run, Cut::Tail).await, Err(JournalError::Held { .. })),
        "an old fence releases nothing"
    );
}

/// No other fence than the owner's writes anything: a former owner's, one that was never given, or none at all, with
/// whatever kind of write.
pub async fn a_foreign_fence_writes_nothing_of_any_kind(journal: Arc<dyn Journal>) {
    let (run, other): (RunId, RunId) = ("r".into(), "other".into());
    let former = journal.create(NewRun::empty(&run, "w", 0)).await.unwrap();
    journal.create(NewRun::empty(&other, "w", 0)).await.unwrap();
    journal.append(append(&run, former, 1..=2)).await.unwrap();
    journal.post(&run, 7, "1".into()).await.unwrap();
    journal.release(&run, former).await.unwrap();
    let owner = journal.acquire(&run, Cut::Tail).await.unwrap().fence;
    assert_ne!(former, owner);
    let letter = journal.inbox(&run).await.unwrap()[0].id;
    let remains = async || {
        let runs = journal.runs().await.unwrap();
        let entry = runs.into_iter().find(|entry| entry.run == run).unwrap();
        let (records, inbox) = (journal.read(&run, 0, 100).await.unwrap(), journal.inbox(&run).await.unwrap());
        (entry.state, entry.driven, records, inbox)
    };
    let before = remains().await;
    for fence in [former, Fence(owner.0 + 1), Fence(0), Fence(u64::MAX)] {
        let nothing = || append(&run, fence, []);
        let snapshot = Some(Snapshot { seq: 2, version: 1, payload: "forged".into() });
        let writes = [
            ("records", append(&run, fence, [3])),
            ("a state", Append { state: ended("completed"), ..nothing() }),
            ("a snapshot", Append { snapshot, ..nothing() }),
            ("an empty inbox", Append { inbox: Some(letter), ..nothing() }),
        ];
        for (what, write) in writes {
            let refused = journal.append(write).await;
            assert!(matches!(refused, Err(JournalError::Fenced { .. })), "{what} with {fence:?}: {refused:?}");
        }
        journal.release(&run, fence).await.unwrap();
        assert_eq!(remains().await, before, "with {fence:?}");
    }
    // Beside the owner's own write, in whatever batch both are committed.
    for (at, fence) in [former, Fence(owner.0 + 1), Fence(0), Fence(u64::MAX)].into_iter().enumerate() {
        let next = 3 + at as u64;
        let (own, foreign) = (append(&run, owner, [next]), append(&run, fence, [next + 1]));
        let (own, foreign) = tokio::join!(journal.append(own), journal.append(foreign));
        assert!(own.is_ok() && foreign.is_err(), "{fence:?}: {own:?}, {foreign:?}");
    }
    journal.release(&run, owner).await.unwrap();
    let opened = journal.acquire(&run, Cut::Tail).await.unwrap();
    assert_eq!((opened.snapshot, opened.records), (None, (1..=6).map(record).collect()));
}

/// An unknown run is an error everywhere.
pub async fn an_unknown_run_is_an_error_everywhere(journal: Arc<dyn Journal>) {
    let run: RunId = "gone".into();
    assert!(matches!(journal.acquire(&run, Cut::Tail).await, Err(JournalError::UnknownRun(_))));
    assert!(matches!(journal.read(&run, 0, 1).await, Err(JournalError::UnknownRun(_))));
    assert!(matches!(journal.append(append(&run, Fence(1), 1..=1)).await, Err(JournalError::UnknownRun(_))));
    assert!(matches!(journal.post(&run, 0, "{}".into()).await, Err(JournalError::UnknownRun(_))));
}

/// Messages stay until records say what they say.
pub async fn letters_stay_until_records_say_what_they_say(journal: Arc<dyn Journal>) {
    let run: RunId = "r".into();
    let fence = journal.create(NewRun::empty(&run, "w", 0)).await.unwrap();
    for text in ["1", "2", "3"] {
        journal.post(&run, 7, text.into()).await.unwrap();
    }
    let inbox = journal.inbox(&run).await.unwrap();
    assert_eq!(inbox.iter().map(|message| message.payload.as_ref()).collect::<Vec<_>>(), ["1", "2", "3"]);
    let taken = Some(inbox[1].id);
    journal.append(Append { inbox: taken, ..append(&run, fence, [9]) }).await.unwrap_err();
    assert_eq!(journal.inbox(&run).await.unwrap().len(), 3, "what is not recorded is not taken");
    journal.append(Append { inbox: taken, ..append(&run, fence, [1]) }).await.unwrap();
    assert_eq!(journal.inbox(&run).await.unwrap(), inbox[2..]);
}

/// Retention never touches a run that has not ended.
pub async fn retention_never_touches_a_run_that_has_not_ended(journal: Arc<dyn Journal>) {
    for (name, at) in [("a", 1), ("b", 2), ("c", 3), ("live", 0)] {
        let run: RunId = name.into();
        let fence = journal.create(NewRun::empty(&run, "w", at)).await.unwrap();
        let state = if name == "live" { None } else { ended("completed") };
        journal.append(Append { state, ..append(&run, fence, 1..=1) }).await.unwrap();
        journal.release(&run, fence).await.unwrap();
    }
    let keep = |keep| Retention { keep: Some(keep), ended_after: None };
    let gone = journal.retain(keep(2)).await.unwrap();
    assert_eq!(gone, [RunId::from("a")]);
    let gone = journal.retain(Retention { keep: None, ended_after: Some(i64::MAX) }).await.unwrap();
    assert_eq!(gone.len(), 2);
    let left = journal.runs().await.unwrap();
    assert_eq!(left.iter().map(|run| run.run.as_ref()).collect::<Vec<_>>(), ["live"]);
    assert_eq!(left[0].records, 1);
}

/// A run that has ended at a time, whenever it began.
async fn ended_run(journal: &dyn Journal, name: &str, began: i64, ended_at: i64) {
    let run: RunId = name.into();
    let fence = journal.create(NewRun::empty(&run, "w", began)).await.unwrap();
    let records = vec![Record { at: ended_at, ..record(1) }];
    let append = Append { records, state: ended("completed"), ..append(&run, fence, []) };
    journal.append(append).await.unwrap();
    journal.release(&run, fence).await.unwrap();
}

async fn left(journal: &dyn Journal) -> Vec<RunId> {
    let mut left: Vec<_> = journal.runs().await.unwrap().into_iter().map(|run| run.run).collect();
    left.sort();
    left
}

/// Retention goes by the time at which runs ended, not by that of their start.
pub async fn retention_counts_from_the_end_of_a_run(journal: Arc<dyn Journal>) {
    ended_run(&*journal, "long", 10, 2_000).await;
    ended_run(&*journal, "short", 500, 600).await;
    ended_run(&*journal, "between", 20, 1_000).await;
    let gone = journal.retain(Retention { keep: Some(2), ended_after: None }).await.unwrap();
    assert_eq!(gone, [RunId::from("short")], "it began last and ended first");
    let gone = journal.retain(Retention { keep: None, ended_after: Some(1_001) }).await.unwrap();
    assert_eq!(gone, [RunId::from("between")]);
    assert_eq!(left(&*journal).await, [RunId::from("long")]);
}

/// A clock that lies before the newest record, or long after it, is in doubt for a day, or until it is trusted.
pub async fn a_clock_that_jumped_is_in_doubt(journal: Arc<dyn Journal>) {
    const NOW: i64 = 1_800_000_000_000_000;
    let doubted = async |now: i64| journal.check_clock(now, false).await.unwrap();
    assert_eq!(doubted(NOW - MAX_PAUSE).await, None, "an empty journal knows no time");
    ended_run(&*journal, "a", NOW - 9, NOW).await;
    // It is reached although the last look at the clock was a month ago.
    assert_eq!(doubted(NOW + MAX_PAUSE - 1).await, None);
    let [recorded, past, future] = [NOW + MAX_PAUSE - 1, NOW, NOW + 100 * MAX_PAUSE];
    assert_eq!(doubted(past).await, Some(ClockJump { now: past, recorded }));
    assert_eq!(doubted(future).await, Some(ClockJump { now: future, recorded }));
    // A run that this clock dates does not confirm it.
    ended_run(&*journal, "b", future, future + 1).await;
    assert_eq!(doubted(future + 2).await, Some(ClockJump { now: future + 2, recorded }));
    assert_eq!(doubted(recorded + 1).await, None, "the clock was corrected");
    assert!(doubted(future + 3).await.is_some(), "the doubt begins again");
    assert!(doubted(future + DOUBT - 1).await.is_some());
    assert_eq!(doubted(future + 3 + DOUBT).await, None);
    // And back, by the word of a person; the records of the future are known to be wrong from then on.
    assert!(doubted(recorded).await.is_some());
    assert_eq!(journal.check_clock(recorded, true).await.unwrap(), None);
    assert_eq!(doubted(recorded + 1).await, None);
    assert_eq!(left(&*journal).await.len(), 2, "looking deletes nothing");
}

/// Deleting never touches a run that has not ended.
pub async fn deleting_never_touches_a_run_that_has_not_ended(journal: Arc<dyn Journal>) {
    for name in ["ended", "live", "kept"] {
        let run: RunId = name.into();
        let fence = journal.create(NewRun::empty(&run, "w", 1)).await.unwrap();
        let state = if name == "live" { None } else { ended("completed") };
        journal.append(Append { state, ..append(&run, fence, 1..=1) }).await.unwrap();
    }
    assert!(!journal.delete(&"live".into()).await.unwrap());
    assert!(journal.delete(&"ended".into()).await.unwrap());
    let unknown = journal.delete(&"ended".into()).await.unwrap_err();
    assert!(matches!(unknown, JournalError::UnknownRun(_)), "{unknown}");
    let mut left: Vec<_> = journal.runs().await.unwrap().into_iter().map(|run| run.run).collect();
    left.sort();
    assert_eq!(left, [RunId::from("kept"), "live".into()]);
}

/// A process is listed with the number of runs that it drives, under the name that the runs have.
pub async fn the_process_that_drives_runs_is_named_with_their_number(journal: Arc<dyn Journal>) {
    let own = async || -> u64 {
        let drivers = journal.drivers().await.unwrap();
        assert!(drivers.iter().filter(|driver| driver.is_this).count() <= 1, "{drivers:?}");
        drivers.iter().filter(|driver| driver.is_this).map(|driver| driver.runs).sum()
    };
    assert_eq!(own().await, 0);
    let (first, second) = (RunId::from("first"), RunId::from("second"));
    let fence = journal.create(NewRun::empty(&first, "w", 1)).await.unwrap();
    let _second = journal.create(NewRun::empty(&second, "w", 2)).await.unwrap();
    assert_eq!(own().await, 2);
    let drivers = journal.drivers().await.unwrap();
    let named = drivers.iter().find(|driver| driver.is_this).map(|driver| driver.name.clone());
    assert_eq!(journal.runs().await.unwrap()[0].driver, named);
    journal.release(&first, fence).await.unwrap();
    assert_eq!(own().await, 1);
}

/// Runs are listed a page at a time, and counted by their status.
pub async fn runs_are_listed_a_page_at_a_time_and_counted_by_status(journal: Arc<dyn Journal>) {
    for (at, name) in ["cron:a:1", "hook:b", "cron:a:2", "cron:b:1", "cron:a:3"].into_iter().enumerate() {
        let run: RunId = name.into();
        let workflow = if at % 2 == 0 { "even" } else { "odd" };
        let fence = journal.create(NewRun::empty(&run, workflow, at as i64)).await.unwrap();
        let state = if name == "cron:a:3" { None } else { ended(if at == 0 { "failed" } else { "completed" }) };
        journal.append(Append { state, ..append(&run, fence, 1..=2) }).await.unwrap();
        journal.release(&run, fence).await.unwrap();
    }
    let asked = async |query: RunQuery| -> Vec<String> {
        journal.page(query).await.unwrap().iter().map(|run| run.run.to_string()).collect()
    };
    let all = asked(RunQuery::default()).await;
    assert_eq!(all, ["cron:a:3", "cron:b:1", "cron:a:2", "hook:b", "cron:a:1"]);
    let first = asked(RunQuery { limit: 2, ..RunQuery::default() }).await;
    assert_eq!(first, all[..2]);
    let rest = asked(RunQuery { before: Some(first[1].as_str().into()), ..RunQuery::default() }).await;
    assert_eq!(rest, all[2..]);
    let prefix = Some("cron:a:".into());
    assert_eq!(asked(RunQuery { prefix, limit: 2, ..RunQuery::default() }).await, ["cron:a:3", "cron:a:2"]);
    assert_eq!(asked(RunQuery { workflow: Some("odd".into()), ..RunQuery::default() }).await, ["cron:b:1", "hook:b"]);
    let status = |status: &str| RunQuery { status: Some(status.into()), now: 10, ..RunQuery::default() };
    assert_eq!(asked(status("failed")).await, ["cron:a:1"]);
    // What no one has begun, or no one drives, follows from the time and the driver.
    assert_eq!(asked(status("pending")).await, ["cron:a:3"]);
    assert_eq!(asked(status("none")).await, Vec::<String>::new());
    assert_eq!(asked(RunQuery { since: Some(1), until: Some(3), ..RunQuery::default() }).await, all[2..4]);
    let odd = Some("odd".into());
    assert_eq!(asked(RunQuery { since: Some(2), workflow: odd, limit: 2, ..RunQuery::default() }).await, ["cron:b:1"]);
    let unknown = journal.page(RunQuery { before: Some("none".into()), ..RunQuery::default() }).await.unwrap_err();
    assert!(matches!(unknown, JournalError::UnknownRun(_)), "{unknown}");
    let counts = journal.tally(10).await.unwrap();
    let entries = journal.runs().await.unwrap();
    for (status, tally) in &counts {
        let oldest = entries.iter().filter(|run| run.status(10) == status).map(|run| run.updated_at).min();
        assert_eq!(Some(tally.oldest), oldest, "{status}");
    }
    let counts: Vec<(&str, u64)> = counts.iter().map(|(status, tally)| (status.as_str(), tally.runs)).collect();
    assert_eq!(counts, [("completed", 3), ("failed", 1), ("pending", 1)]);
}

/// Many writers at once lose nothing.
pub async fn many_writers_at_once_lose_nothing(journal: Arc<dyn Journal>) {
    let tasks: Vec<_> = (0..20)
        .map(|n| {
            let journal = journal.clone();
            tokio::spawn(async move {
                let run: RunId = format!("r{n}").into();
                let fence = journal.create(NewRun::empty(&run, "w", 0)).await.unwrap();
                for seq in 1..=10 {
                    journal.append(append(&run, fence, [seq])).await.unwrap();
                }
                // A refused neighbour in the same transaction disturbs no one.
                journal.append(append(&run, fence, [99])).await.unwrap_err();
                journal.read(&run, 0, 100).await.unwrap().len()
            })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap(), 10);
    }
}

/// A run is made with its first records or not at all.
pub async fn a_run_is_made_with_its_first_records_or_not_at_all(journal: Arc<dyn Journal>) {
    let new = |seqs: std::ops::RangeInclusive<u64>| NewRun {
        records: seqs.map(record).collect(),
        ..NewRun::empty(&"r".into(), "w", 0)
    };
    let error = journal.create(new(2..=3)).await.unwrap_err();
    assert!(matches!(error, JournalError::OutOfOrder { .. }), "{error}");
    assert!(matches!(journal.read(&"r".into(), 0, 1).await, Err(JournalError::UnknownRun(_))));
    let fence = journal.create(new(1..=2)).await.unwrap();
    journal.append(append(&"r".into(), fence, [3])).await.unwrap();
    assert_eq!(journal.read(&"r".into(), 0, 9).await.unwrap().len(), 3);
}

/// Runs that could go on are those that are due or have messages and no owner.
pub async fn runs_that_could_go_on_are_those_that_are_due_or_have_letters_and_no_owner(journal: Arc<dyn Journal>) {
    let state = |due| RunState { status: "suspended".into(), ended: false, due };
    for (name, due) in [("later", Some(50)), ("now", Some(10)), ("waits", None), ("owned", Some(0)), ("reported", None)]
    {
        let run: RunId = name.into();
        let fence = journal.create(NewRun { state: state(due), ..NewRun::empty(&run, "w", 0) }).await.unwrap();
        if name != "owned" {
            journal.release(&run, fence).await.unwrap();
        }
    }
    journal.post(&"reported".into(), 0, "{}".into()).await.unwrap();
    let names = |runs: Vec<RunId>| {
        let mut names: Vec<String> = runs.iter().map(ToString::to_string).collect();
        names.sort();
        names
    };
    assert_eq!(names(journal.runnable(20, 9).await.unwrap()), ["now", "reported"]);
    assert_eq!(names(journal.runnable(50, 9).await.unwrap()), ["later", "now", "reported"]);
    assert_eq!(journal.runnable(50, 1).await.unwrap().len(), 1);
}

/// A run that has ended has no owner and takes no messages.
pub async fn a_run_that_has_ended_has_no_owner_and_takes_no_letters(journal: Arc<dyn Journal>) {
    let run: RunId = "r".into();
    let fence = journal.create(NewRun::empty(&run, "w", 0)).await.unwrap();
    journal.append(Append { state: ended("completed"), ..append(&run, fence, 1..=1) }).await.unwrap();
    assert!(!journal.runs().await.unwrap()[0].driven);
    let error = journal.post(&run, 0, "{}".into()).await.unwrap_err();
    assert_eq!(error.to_string(), "run `r` has ended (completed); it accepts no more messages");
    assert!(journal.acquire(&run, Cut::Tail).await.is_ok());
}

/// A snapshot replaces the records before it.
pub async fn a_snapshot_replaces_the_records_before_it(journal: Arc<dyn Journal>) {
    let run: RunId = "r".into();
    let fence = journal.create(NewRun::empty(&run, "w", 0)).await.unwrap();
    let snapshot = Snapshot { seq: 3, version: 1, payload: "three".into() };
    journal.append(Append { snapshot: Some(snapshot.clone()), ..append(&run, fence, 1..=3) }).await.unwrap();
    journal.append(append(&run, fence, 4..=5)).await.unwrap();
    journal.release(&run, fence).await.unwrap();
    let opened = journal.acquire(&run, Cut::Tail).await.unwrap();
    assert_eq!((opened.snapshot, opened.records), (Some(snapshot), vec![record(4), record(5)]));
    assert_eq!(journal.read(&run, 0, 9).await.unwrap().len(), 5, "the records stay");
}

/// Makes one test of each promise. Takes an async closure that makes an empty journal, and what must live as long as
/// it.
#[macro_export]
macro_rules! contract {
    ($make:expr) => {
        $crate::contract!(@tests $make;
            what_was_appended_is_read_back_in_order,
            a_gap_or_a_repetition_is_refused_and_leaves_nothing,
            a_run_has_one_owner_and_a_former_owner_cannot_write,
            a_foreign_fence_writes_nothing_of_any_kind,
            an_unknown_run_is_an_error_everywhere,
            letters_stay_until_records_say_what_they_say,
            retention_never_touches_a_run_that_has_not_ended,
            retention_counts_from_the_end_of_a_run,
            a_clock_that_jumped_is_in_doubt,
            deleting_never_touches_a_run_that_has_not_ended,
            runs_are_listed_a_page_at_a_time_and_counted_by_status,
            the_process_that_drives_runs_is_named_with_their_number,
            many_writers_at_once_lose_nothing,
            a_run_is_made_with_its_first_records_or_not_at_all,
            runs_that_could_go_on_are_those_that_are_due_or_have_letters_and_no_owner,
            a_run_that_has_ended_has_no_owner_and_takes_no_letters,
            a_snapshot_replaces_the_records_before_it
        );
    };
    (@tests $make:expr; $($name:ident),+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let (_alive, journal) = ($make)().await;
                $crate::contract::$name(journal).await;
            }
        )+
    };
}
