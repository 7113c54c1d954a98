use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn schedule(cron: &str, zone: &str, missed: Missed) -> Schedule {
    Schedule::new(cron, zone, missed).unwrap()
}

fn texts(instants: Vec<Timestamp>) -> Vec<String> {
    instants.iter().map(ToString::to_string).collect()
}

#[test]
fn a_schedule_is_read_in_its_time_zone() {
    let nightly = schedule("30 3 * * *", "Europe/Berlin", Missed::Skip);
    assert_eq!(nightly.next(at("2026-01-10T00:00:00Z")), Some(at("2026-01-10T02:30:00Z")));
    assert_eq!(nightly.next(at("2026-07-10T00:00:00Z")), Some(at("2026-07-10T01:30:00Z")));
    assert_eq!(nightly.next(at("2026-07-10T01:30:00Z")), Some(at("2026-07-11T01:30:00Z")), "after, not at");
}

#[test]
fn the_hour_that_summer_time_leaves_out_or_repeats_counts_once() {
    // In Berlin 02:30 does not exist on 2026-03-29, and exists twice on 2026-10-25.
    let half_past_two = schedule("30 2 * * *", "Europe/Berlin", Missed::All);
    let spring = half_past_two.due(at("2026-03-28T12:00:00Z"), at("2026-03-29T12:00:00Z"));
    assert_eq!(texts(spring), ["2026-03-29T01:00:00Z"], "at the end of the gap");
    let autumn = half_past_two.due(at("2026-10-24T12:00:00Z"), at("2026-10-25T12:00:00Z"));
    assert_eq!(autumn.len(), 1, "{autumn:?}");
}

#[test]
fn what_was_missed_is_skipped_or_counts_once_or_each_time() {
    let (done, now) = (at("2026-01-01T00:00:00Z"), at("2026-01-01T05:00:30Z"));
    let due = |missed| texts(schedule("0 * * * *", "UTC", missed).due(done, now));
    assert_eq!(due(Missed::Skip), ["2026-01-01T05:00:00Z"], "half a minute is not late");
    assert_eq!(due(Missed::One), ["2026-01-01T04:00:00Z", "2026-01-01T05:00:00Z"]);
    assert_eq!(due(Missed::All).len(), 5);
    let late = at("2026-01-01T05:30:00Z");
    assert_eq!(texts(schedule("0 * * * *", "UTC", Missed::Skip).due(done, late)), [""; 0]);
    assert_eq!(texts(schedule("0 * * * *", "UTC", Missed::One).due(done, late)), ["2026-01-01T05:00:00Z"]);
    assert_eq!(texts(schedule("0 * * * *", "UTC", Missed::All).due(late, late)), [""; 0], "all is done");
}

#[test]
fn a_year_of_absence_is_not_made_up_for_minute_by_minute() {
    let every_minute = schedule("* * * * *", "UTC", Missed::All);
    let due = every_minute.due(at("2025-01-01T00:00:00Z"), at("2026-01-01T00:00:00Z"));
    assert_eq!(due.last(), Some(&at("2026-01-01T00:00:00Z")));
    let missed = due.iter().filter(|instant| **instant < at("2025-12-31T23:59:00Z")).count();
    assert_eq!(missed, MOST_MISSED);
}

#[test]
fn what_is_not_a_schedule_is_refused() {
    let error = |cron, zone| Schedule::new(cron, zone, Missed::Skip).unwrap_err().to_string();
    assert!(
        error("every day", "UTC").starts_with("`every day` is not a cron expression"),
        "{}",
        error("every day", "UTC")
    );
    assert!(error("61 * * * *", "UTC").contains("is not a cron expression"));
    assert_eq!(error("0 0 30 2 *", "UTC"), "`0 0 30 2 *` never comes");
    assert_eq!(error("0 0 * * *", "Mars/Olympus"), "there is no time zone `Mars/Olympus`");
}

#[test]
fn the_run_of_an_instant_has_one_name() {
    let trigger = Trigger {
        name: "nightly".into(),
        source: TriggerSource::Cron(schedule("0 3 * * *", "UTC", Missed::Skip)),
        action: TriggerAction::Start { workflow: "report".into() },
        input: Map::new(),
    };
    let run = trigger.scheduled_run(at("2026-01-01T03:00:00Z"));
    assert_eq!(*run, *"cron:nightly:2026-01-01T03:00:00Z");
    assert!(is_trigger_run(&run));
    assert_eq!(trigger.instant_of(&run), Some(at("2026-01-01T03:00:00Z")));
    assert_eq!(trigger.instant_of("cron:nightly-2:2026-01-01T03:00:00Z"), None);
}

#[test]
fn a_pointer_finds_parts_as_rfc_6901_says() {
    let body = Value::from_json(r#"{"foo":["bar","baz"],"":0,"a/b":1,"m~n":8,"k":{"0":2}}"#).unwrap();
    let find = |pointer: &str| pointer.parse::<Pointer>().unwrap().find(&body).map(Value::to_json);
    for (pointer, part) in [("/foo/0", "\"bar\""), ("/", "0"), ("/a~1b", "1"), ("/m~0n", "8"), ("/k/0", "2")] {
        assert_eq!(find(pointer).as_deref(), Ok(part), "{pointer}");
    }
    assert_eq!(find(""), Ok(body.to_json()));
    for nothing in ["/no", "/foo/2", "/foo/00", "/foo/-", "/foo/0/x"] {
        assert_eq!(find(nothing).unwrap_err().to_string(), format!("the body has nothing at `{nothing}`"));
    }
    for invalid in ["foo", "/a~2", "/a~"] {
        assert!(invalid.parse::<Pointer>().is_err(), "{invalid}");
    }
}

#[test]
fn the_input_is_the_body_or_what_the_file_takes_from_it() {
    let webhook = |input: &[(&str, Value)], body: &[(&str, &str)]| Trigger {
        name: "push".into(),
        source: TriggerSource::Webhook(Webhook {
            signature: Signature::Standard,
            secrets: Vec::new(),
            window: DEFAULT_WINDOW,
            body: body.iter().map(|(key, pointer)| ((*key).to_owned(), pointer.parse().unwrap())).collect(),
            on: Vec::new(),
        }),
        action: TriggerAction::Start { workflow: "triage".into() },
        input: input.iter().map(|(key, value)| ((*key).into(), value.clone())).collect(),
    };
    let body = Value::from_json(r#"{"issue":{"number":7}}"#).unwrap();
    assert_eq!(webhook(&[], &[]).input_of(&body), Ok(body.clone()));
    let both = webhook(&[("kind", Value::from("issue"))], &[("number", "/issue/number")]);
    assert_eq!(both.input_of(&body).unwrap().to_json(), r#"{"kind":"issue","number":7}"#);
    let missing = webhook(&[], &[("title", "/issue/title")]).input_of(&body).unwrap_err();
    assert_eq!(missing.to_string(), "the body has nothing at `/issue/title`");
}

#[test]
fn instants_without_a_run_were_missed_once_the_schedule_was_at_work() {
    let hourly = schedule("0 * * * *", "UTC", Missed::Skip);
    let hour = |hour: u32| at(&format!("2026-01-01T{hour:02}:00:00Z"));
    let missed = |done: &[u32], now| {
        let done: BTreeSet<Timestamp> = done.iter().map(|&done| hour(done)).collect();
        texts(hourly.missed_since(&done, now))
    };
    assert_eq!(missed(&[], hour(9)), [""; 0], "nothing says that it was at work");
    assert_eq!(missed(&[3, 4, 7], hour(9)), ["2026-01-01T08:00:00Z", "2026-01-01T06:00:00Z", "2026-01-01T05:00:00Z"]);
    assert_eq!(missed(&[3, 4], at("2026-01-01T05:00:30Z")), [""; 0], "half a minute is not late");
    assert_eq!(missed(&[3, 4], at("2026-01-01T05:01:30Z")), ["2026-01-01T05:00:00Z"]);
    let every_second = schedule("* * * * * *", "UTC", Missed::Skip);
    let long_ago = BTreeSet::from([at("2025-01-01T00:00:00Z")]);
    assert_eq!(every_second.missed_since(&long_ago, hour(9)).len(), MOST_MISSED);
}

#[test]
fn an_event_is_named_with_or_without_its_action() {
    let matches = |name: &str, event: &str| name.parse::<EventName>().unwrap().matches(event);
    assert!(matches("issues", "issues.opened") && matches("issues.*", "issues.opened") && matches("*", "push"));
    assert!(matches("issues.opened", "issues.opened") && matches("push", "push"));
    assert!(!matches("issues.opened", "issues.closed") && !matches("issue", "issues") && !matches("push", ""));
    for wrong in ["", ".", "a b", "issues.", ".opened", "*.opened", "a..b", &"a".repeat(201)] {
        assert!(wrong.parse::<EventName>().is_err(), "{wrong}");
    }
}
