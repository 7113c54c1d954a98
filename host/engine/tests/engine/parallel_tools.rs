//! Tool calls of one answer: those that change nothing are made at once, all others one after the other; answers keep
//! the calls' order.

use crate::{lasting::started, support::*};
use opcell_engine::{
    Event, Recorded, RunOptions, Status, Trace,
    conversation::{Message, Role},
    event::{EffectReply, Request},
};
use opcell_ir::ir::RunLimits;

const READS: &[(&str, &str)] = &[("slow-look", r#"{"n":1}"#), ("look", r#"{"n":2}"#), ("look", r#"{"n":3}"#)];

fn session(rest: &str) -> String {
    format!(
        r#"{{"name":"s","type":"session","session":{{"tools":["slow-look","look","write"],"contributions":[{{"type":"template","text":"go","vars":{{}}}}]{rest}}},
            "outputs":{{"final-llm-reply":{{"source":"session/final-llm-reply"}}}},"yields":{{"type":"text","text":"final-llm-reply"}}}}"#
    )
}

/// `look` and `slow-look` change nothing, `write` does.
fn script(calls: &[(&str, &str)]) -> Script {
    let script =
        Script::new().tool("look", r#""seen""#).tool("slow-look", r#""seen late""#).tool("write", r#""written""#);
    script.world().parallel_tools = vec!["look".to_owned(), "slow-look".to_owned()];
    script.world().script([calling(calls), Message::assistant("done")]);
    script
}

/// The tool calls' beginnings and ends, as they happened.
async fn happened(script: &Script, rest: &str) -> (Vec<String>, Vec<Recorded>) {
    let engine = script.engine();
    let run = engine.start(routed(&session(rest)), json("{}"), RunOptions::default()).await.unwrap();
    let outcome = run.finished().await.unwrap();
    check_history(&engine, &outcome).await;
    let history = engine.history(run.run()).await.unwrap();
    let said = history.iter().filter_map(|recorded| match &recorded.event {
        Event::Requested { request: Request::Tool { call, .. }, .. } => Some(format!("{call} asked")),
        Event::Replied { effect, reply } if matches!(**reply, EffectReply::Tool(_)) => {
            let call = history.iter().find_map(|recorded| match &recorded.event {
                Event::Requested { effect: asked, request: Request::Tool { call, .. }, .. } if asked == effect => {
                    Some(call)
                }
                _ => None,
            });
            Some(format!("{} answered", call.unwrap()))
        }
        _ => None,
    });
    (said.collect(), history.clone())
}

fn answers(script: &Script) -> Vec<(String, String)> {
    let round = script.world().rounds[1].messages.clone();
    let answers = round.iter().filter(|message| message.role == Role::Tool);
    answers.map(|message| (message.tool_call_id.clone().unwrap(), message.content.clone())).collect()
}

#[tokio::test]
async fn calls_that_change_nothing_are_made_at_once_and_answered_in_their_order() {
    let script = script(READS);
    let (happened, history) = happened(&script, "").await;
    assert_eq!(happened[..3], ["c0 asked", "c1 asked", "c2 asked"]);
    assert_eq!(happened.last().map(String::as_str), Some("c0 answered"), "the slow one ends last: {happened:?}");
    let reported = answers(&script);
    let reported: Vec<_> = reported.iter().map(|(call, text)| (call.as_str(), text.as_str())).collect();
    assert_eq!(reported, [("c0", "seen late"), ("c1", "seen"), ("c2", "seen")]);
    let trace = Trace::of(&"run".into(), &history).unwrap();
    let shown = &trace.steps[0].conversation.as_ref().unwrap().messages;
    let shown: Vec<_> = shown.iter().filter_map(|message| message.tool_call_id.as_deref()).collect();
    assert_eq!(shown, ["c0", "c1", "c2"], "people see them in that order, too");
}

#[tokio::test]
async fn a_call_that_changes_something_waits_for_those_before_it_and_is_waited_for() {
    let calls = [READS[0], READS[1], ("write", "{}"), READS[2], READS[0]];
    let script = script(&calls);
    let (happened, _) = happened(&script, "").await;
    let at = |what: &str| happened.iter().position(|happened| happened == what).unwrap();
    assert!(at("c0 answered") < at("c2 asked") && at("c1 answered") < at("c2 asked"), "{happened:?}");
    assert!(at("c2 answered") < at("c3 asked") && at("c4 asked") < at("c3 answered"), "{happened:?}");
    assert_eq!(
        answers(&script).iter().map(|(call, _)| call.as_str()).collect::<Vec<_>>(),
        ["c0", "c1", "c2", "c3", "c4"]
    );
}

/// However many calls one answer holds, eight are under way together and a thousand are made.
#[tokio::test]
async fn calls_of_one_answer_are_bounded() {
    let script = script(&vec![("look", "{}"); 1_002]);
    let (happened, _) = happened(&script, "").await;
    let (mut under_way, mut most) = (0_usize, 0);
    for what in &happened {
        under_way = if what.ends_with("asked") { under_way + 1 } else { under_way - 1 };
        most = most.max(under_way);
    }
    assert_eq!((most, script.called().len()), (8, 1_000));
    let reported = answers(&script);
    assert_eq!(reported.len(), 1_002);
    assert!(reported[1_001].1.starts_with("denied: this turn has used its 1000 tool calls"), "{:?}", reported[1_001]);
}

#[tokio::test]
async fn two_calls_of_one_id_are_each_made_with_their_own_arguments() {
    let script = Script::new().tool("look", r#""seen""#);
    script.world().parallel_tools = vec!["look".to_owned()];
    let mut answer = calling(&[("look", r#"{"n":1}"#), ("look", r#"{"n":2}"#)]);
    answer.tool_calls.iter_mut().for_each(|call| "same".clone_into(&mut call.id));
    script.world().script([answer, Message::assistant("done")]);
    happened(&script, "").await;
    assert_eq!(script.called(), [r#"look {"n":1}"#, r#"look {"n":2}"#]);
}

#[tokio::test]
async fn calls_made_at_once_count_one_by_one() {
    let script = script(READS);
    happened(&script, r#","max-tool-calls":2"#).await;
    assert_eq!(script.called(), [r#"look {"n":2}"#, r#"slow-look {"n":1}"#], "the third is refused");
    let reported = answers(&script);
    assert!(reported[2].1.starts_with("denied: this turn has used its 2 tool calls"), "{reported:?}");

    let limited = self::script(READS);
    let limits = RunLimits { tool_calls: Some(2), ..RunLimits::default() };
    let options = RunOptions { limits, ..RunOptions::default() };
    let outcome = limited.run_with(&routed(&session("")), "{}", options).await;
    assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Failed, Some("budget-exhausted")));
    assert_eq!(outcome.used.tool_calls, 2);
}

#[tokio::test]
async fn a_run_that_is_driven_by_hand_or_performs_everything_twice_comes_to_the_same_end() {
    for times in [1, 2] {
        let script = script(&[]).answers(|round| match round.messages.iter().any(|said| said.role == Role::Tool) {
            false => calling(READS),
            true => Message::assistant("done"),
        });
        let state = drive_by_hand(&script, vec![started(routed(&session("")), "{}")], times).await;
        assert_eq!(state.status(), Status::Completed);
        let last = script.world().rounds.last().unwrap().messages.clone();
        let reported: Vec<&str> = last.iter().filter_map(|said| said.tool_call_id.as_deref()).collect();
        assert_eq!(reported, ["c0", "c1", "c2"]);
    }
}
