//! Calls that a program makes at once.

use super::{
    programs::{resume_session, session_engine, start_session},
    *,
};

/// The places of the calls whose replies are recorded, in order.
fn replied(records: &[Record]) -> Vec<usize> {
    let replies = records.iter().filter(|record| &*record.kind == "inner-replied");
    let place = |record: &Record| {
        let (_, rest) = record.payload.split_once(r#""place":"#).unwrap();
        rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
    };
    replies.map(place).collect()
}

/// Drives a run of calls that are made at once to its end, with a person who approves everything, and settles each call
/// in doubt by making it again. Returns how many questions there were at once.
async fn settling(cells: &Cells, mut outcome: RunOutcome) -> (RunOutcome, Vec<usize>) {
    let (engine, mut asked) = (session_engine(cells), Vec::new());
    while !outcome.questions.is_empty() {
        asked.push(outcome.questions.len());
        for question in &outcome.questions {
            match question {
                Question::Call { id, .. } => {
                    engine.decide(&"r".into(), id, &Decision::approve().by("ann")).await.unwrap();
                }
                _ => answer(cells, Answer::Retry).await,
            }
        }
        outcome = resume_session(cells).await;
    }
    (outcome, asked)
}

fn said(outcome: &RunOutcome) -> Vec<(usize, String)> {
    let said: Vec<String> = serde_json::from_str(outcome.result.as_str().unwrap()).unwrap();
    let parts = said.iter().map(|said| said.split_once(' ').unwrap());
    parts.map(|(at, result)| (at.parse().unwrap(), result.to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_at_once_keep_their_places_and_a_killed_program_learns_of_their_ends_in_the_recorded_order() {
    for plan in [UNASKED, PLAN] {
        let cells = Cells::at_once(&plan, true);
        let (outcome, asked) = settling(&cells, start_session(&cells).await).await;
        assert_eq!(outcome.status, Status::Completed, "{outcome:?}");
        assert_eq!(asked, if plan == PLAN { vec![2] } else { vec![] }, "both calls are asked about at once");
        let records = cells.journal.read(&"r".into(), 0, 1_000).await.unwrap();
        let order: Vec<usize> = said(&outcome).into_iter().map(|(at, _)| at).collect();
        assert_eq!(order, replied(&records));
        assert_ne!(order, [0, 1, 2, 3], "the calls took times of their own");
        let mut calls = cells.made();
        calls.sort();
        let keys: Vec<String> = (0..4).map(|at| format!("{} r/talk/1/1/{}", plan[at].0, at + 1)).collect();
        let mut expected: Vec<String> = keys.iter().map(|key| key.replace("r/talk/1/1", key_of(&calls))).collect();
        expected.sort();
        assert_eq!(calls, expected);
        let started = records.iter().position(|record| &*record.kind == "inner-started").unwrap();
        for keep in started + 1..records.len() {
            let prefix = &records[..keep];
            let (before, ended) = (replied(prefix), count(prefix, "inner-replied"));
            // They take other times now.
            let cells = Cells::at_once(&plan, false).within(holding(prefix.to_vec()).await);
            let (outcome, _) = settling(&cells, resume_session(&cells).await).await;
            assert_eq!(outcome.status, Status::Completed, "after event {keep}: {outcome:?}");
            let now: Vec<usize> = said(&outcome).into_iter().map(|(at, _)| at).collect();
            assert_eq!(now[..ended], before, "after event {keep}: it learns of the same ends first");
            assert_eq!(now, replied(&cells.journal.read(&"r".into(), 0, 1_000).await.unwrap()), "after event {keep}");
            let made = cells.made();
            assert_eq!(made.len(), 4 - ended, "after event {keep}: what has ended is not made again: {made:?}");
            assert!(made.iter().all(|key| calls.contains(key)), "after event {keep}: with other keys: {made:?}");
        }
    }
}

/// The key of the effect in those of its calls.
fn key_of(calls: &[String]) -> &str {
    calls[0].split_once(' ').unwrap().1.rsplit_once('/').unwrap().0
}

#[tokio::test(flavor = "multi_thread")]
async fn of_calls_at_once_others_end_before_a_person_is_asked_and_a_refused_one_fails_alone() {
    let cells = Cells::at_once(&PLAN, true);
    let outcome = start_session(&cells).await;
    let mut made = cells.made();
    made.sort();
    assert_eq!((outcome.status, made.len()), (Status::Suspended, 2), "{outcome:?}");
    assert!(made[0].starts_with("look ") && made[1].starts_with("put "), "{made:?}");
    let records = cells.journal.read(&"r".into(), 0, 1_000).await.unwrap();
    assert_eq!((count(&records, "inner-requested"), count(&records, "inner-replied")), (4, 2));
    let [Question::Call { id: first, .. }, Question::Call { id: second, .. }] = outcome.questions.as_slice() else {
        panic!("{outcome:?}")
    };
    let engine = session_engine(&cells);
    engine.decide(&"r".into(), second, &Decision::approve().by("ann")).await.unwrap();
    let outcome = resume_session(&cells).await;
    assert_eq!((outcome.questions.len(), cells.made().len()), (1, 2), "the other call has no answer yet: {outcome:?}");
    engine.decide(&"r".into(), first, &Decision::refuse().by("ann")).await.unwrap();
    let outcome = resume_session(&cells).await;
    let mut results = said(&outcome);
    results.sort();
    let expected = [(0, "done"), (1, "approval-refused"), (2, "done"), (3, "done")];
    assert_eq!(results, expected.map(|(at, result)| (at, result.to_owned())), "{outcome:?}");
    assert_eq!(cells.made().iter().filter(|made| made.starts_with("send")).count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_record_of_calls_at_once_is_refused() {
    let cells = Cells::at_once(&PLAN, true);
    start_session(&cells).await;
    let records = cells.journal.read(&"r".into(), 0, 1_000).await.unwrap();
    let waiting = records.iter().position(|record| record.payload.contains(r#""waits":true"#)).unwrap();
    let asked = records.iter().position(|record| &*record.kind == "calls-asked").unwrap();
    let place = r#""place":1"#;
    for (at, from, to) in [
        // A call that waits is asked about, and no other.
        (waiting, r#","waits":true"#, ""),
        (waiting, place, r#""place":3"#),
        (asked, place, r#""place":0"#),
        (asked, place, r#""place":9"#),
    ] {
        let mut forged = records[..=asked].to_vec();
        let text = forged[at].payload.replacen(from, to, 1);
        assert_ne!(text, *forged[at].payload, "{from}");
        forged[at].payload = text.into();
        let cells = Cells::at_once(&PLAN, true).within(holding(forged).await);
        let refused = session_engine(&cells).resume(&"r".into(), ResumeOptions::default()).await;
        let Err(RunError::Replay { .. } | RunError::Unreadable { .. }) = refused else { panic!("{from} {to}") };
        assert_eq!(cells.made(), Vec::<String>::new());
    }
}
