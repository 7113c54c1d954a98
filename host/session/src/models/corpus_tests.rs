//! Answers as providers really send them, in `tests/answers`: whole and streamed, with what comes of each.
//!
//! `SNAPSHOTS=overwrite cargo test -p opcell-session --lib corpus` writes what came; read the difference.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use super::answer::{Answer, AnswerReader, Fault};
use super::config::Api;
use super::protocols;
use opcell_engine::ports::AnswerPiece;
use serde_json::{Value as Json, json};
use std::path::PathBuf;
use std::sync::Mutex;

const APIS: [Api; 4] = [Api::OpenaiCompletions, Api::OpenaiResponses, Api::AnthropicMessages, Api::Gemini];

/// The fewest cases of a protocol.
const MIN_CASES: usize = 40;

#[derive(Debug, Default)]
struct Case {
    title: String,
    /// True if a finish reason comes before the end: such an answer, cut, cannot be told from a shorter one.
    is_early: bool,
    whole: Option<String>,
    stream: Option<String>,
    expected: String,
}

impl Case {
    fn bodies(&self) -> impl Iterator<Item = &str> {
        self.whole.iter().chain(&self.stream).map(String::as_str)
    }
}

fn path(api: Api) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/answers").join(format!("{}.txt", api.name()))
}

fn cases(api: Api) -> Vec<Case> {
    let text = std::fs::read_to_string(path(api)).unwrap();
    let mut cases: Vec<Case> = Vec::new();
    for block in text.split("\n#### ").skip(1) {
        let (title, rest) = block.split_once('\n').unwrap();
        let (rest, expected) = rest.split_once("\n==== ").unwrap();
        let mut case = Case { title: title.to_owned(), expected: expected.trim().to_owned(), ..Case::default() };
        let rest = format!("\n{rest}");
        case.is_early = rest.starts_with("\n.... early");
        for part in rest.split("\n---- ").skip(1) {
            let (kind, body) = part.split_once('\n').unwrap_or((part, ""));
            match kind {
                "whole" => case.whole = Some(body.to_owned()),
                "stream" => case.stream = Some(body.to_owned()),
                other => panic!("{title}: a body of the kind {other:?}"),
            }
        }
        assert!(case.bodies().count() > 0, "{title}: no body");
        cases.push(case);
    }
    cases
}

/// The outcome of a body that is given in pieces, and the text that was shown of it.
fn read<'a>(api: Api, pieces: impl Iterator<Item = &'a [u8]>) -> (Result<Answer, Fault>, String) {
    let known = ["t", "u"].into_iter().map(str::to_owned).collect();
    let shown = Mutex::new(String::new());
    let show = |piece: AnswerPiece<'_>| shown.lock().unwrap().push_str(piece.text().unwrap_or_default());
    let mut reader = AnswerReader::new(protocols::reader(api, known, false), show);
    let mut pushed = Ok(());
    for piece in pieces {
        if pushed.is_ok() && !reader.is_over() {
            pushed = reader.push(piece);
        }
    }
    let answer = match pushed {
        Ok(()) => reader.end(),
        Err(fault) => {
            drop(reader);
            Err(fault)
        }
    };
    let judged = answer.and_then(|answer| answer.judged("p/m", protocols::accepts_unknown_finish(api)));
    (judged, shown.into_inner().unwrap())
}

fn outcome(api: Api, body: &[u8]) -> Json {
    shown_outcome(&read(api, std::iter::once(body)).0)
}

fn shown_outcome(answer: &Result<Answer, Fault>) -> Json {
    match answer {
        Ok(answer) => {
            let calls = answer.calls.iter().map(|call| json!([call.id, call.name, Json::from(&call.arguments)]));
            let mut shown = json!({"text": answer.text, "calls": calls.collect::<Vec<_>>()});
            let entries = shown.as_object_mut().unwrap();
            if let Some(kept) = &answer.kept {
                entries.insert("kept".to_owned(), kept.clone());
            }
            if !answer.ignored.is_empty() {
                entries.insert("ignored".to_owned(), answer.ignored.to_string().into());
            }
            entries.insert("tokens".to_owned(), json!([answer.tokens.input, answer.tokens.output]));
            shown
        }
        Err(fault) => {
            json!({"failed": fault.reason, "repeat": fault.repeat, "retriable": fault.retriable, "says": fault.said})
        }
    }
}

/// An outcome without what the last events count, and without what a stream and a whole answer say in their own ways.
fn essence(outcome: &Json) -> Json {
    match outcome.get("failed") {
        Some(reason) => json!([reason, outcome["repeat"], outcome["retriable"]]),
        None => json!([outcome["text"], outcome["calls"], outcome["kept"]]),
    }
}

#[test]
fn every_recorded_answer_comes_to_what_is_written_whole_and_streamed() {
    let overwrites = std::env::var("SNAPSHOTS").is_ok_and(|mode| mode == "overwrite");
    let mut wrong = Vec::new();
    for api in APIS {
        let cases = cases(api);
        assert!(cases.len() >= MIN_CASES, "{}: {} cases", api.name(), cases.len());
        let mut text = std::fs::read_to_string(path(api)).unwrap();
        for case in &cases {
            let found: Vec<Json> = case.bodies().map(|body| outcome(api, body.as_bytes())).collect();
            if found.iter().any(|other| essence(other) != essence(&found[0])) {
                wrong.push(format!("{}: {}: whole and streamed differ: {found:?}", api.name(), case.title));
            }
            let found = found[0].to_string();
            if found != case.expected {
                if overwrites {
                    let at = text.find(&format!("\n#### {}\n", case.title)).unwrap();
                    let at = at + text[at..].find("\n==== ").unwrap() + 6;
                    let end = at + text[at..].find('\n').unwrap();
                    text.replace_range(at..end, &found);
                } else {
                    wrong.push(format!(
                        "{}: {}\n  expected {}\n  got      {found}",
                        api.name(),
                        case.title,
                        case.expected
                    ));
                }
            }
        }
        if overwrites {
            std::fs::write(path(api), text).unwrap();
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_body_reads_alike_in_pieces_of_every_size_and_with_marks_comments_and_other_ends_of_line() {
    for api in APIS {
        for case in cases(api) {
            for body in case.bodies() {
                let expected = outcome(api, body.as_bytes());
                for size in [1, 2, 7] {
                    let found = shown_outcome(&read(api, body.as_bytes().chunks(size)).0);
                    assert_eq!(found, expected, "{}: {} in pieces of {size}", api.name(), case.title);
                }
                let marked = format!("\u{feff}{body}");
                assert_eq!(outcome(api, marked.as_bytes()), expected, "{}: {} marked", api.name(), case.title);
            }
            let Some(stream) = case.stream.as_deref().filter(|stream| stream.contains("data:")) else { continue };
            let expected = outcome(api, stream.as_bytes());
            for (what, changed) in [
                ("CRLF", stream.replace('\n', "\r\n")),
                ("CR", stream.replace('\n', "\r")),
                ("comments", format!(": OPENROUTER PROCESSING\n\n{}", stream.replace("\n\n", "\n\n: keep-alive\n\n"))),
                ("signs of life", stream.replace("\n\n", "\n\ndata: \n\nretry: 10\nid: 3\n\n")),
                ("no blank after the colon", stream.replace("data: ", "data:")),
            ] {
                assert_eq!(outcome(api, changed.as_bytes()), expected, "{}: {} with {what}", api.name(), case.title);
            }
        }
    }
}

#[test]
fn an_answer_that_is_cut_anywhere_is_the_same_or_a_failure_that_may_be_tried_again() {
    std::thread::scope(|scope| {
        for api in APIS {
            scope.spawn(move || {
                cases(api).iter().filter(|case| !case.is_early).for_each(|case| cut_anywhere(api, case))
            });
        }
    });
}

fn cut_anywhere(api: Api, case: &Case) {
    for body in case.bodies() {
        let whole = essence(&outcome(api, body.as_bytes()));
        for end in 0..body.len() {
            let cut = read(api, std::iter::once(&body.as_bytes()[..end])).0;
            let is_retriable = cut.as_ref().is_err_and(|fault| fault.retriable && fault.repeat);
            let found = essence(&shown_outcome(&cut));
            assert!(
                is_retriable || found == whole,
                "{}: {} cut at {end}: {found}\n  whole: {whole}\n  after {:?}",
                api.name(),
                case.title,
                body.get(end.saturating_sub(80)..end)
            );
        }
    }
}

#[test]
fn what_is_shown_while_an_answer_comes_is_its_text() {
    for api in APIS {
        for case in cases(api) {
            let Some(stream) = &case.stream else { continue };
            let (answer, shown) = read(api, stream.as_bytes().chunks(11));
            if let Ok(answer) = answer.as_ref().map(|answer| &answer.text) {
                // Blocks that interleave are shown in the order in which they come.
                if !case.title.contains("interleave") {
                    assert_eq!(&shown, answer, "{}: {}", api.name(), case.title);
                }
            }
        }
    }
}

/// Bodies with bytes changed, lost, repeated or exchanged; the same ones every time.
fn mutants(body: &[u8], count: u64) -> impl Iterator<Item = Vec<u8>> + '_ {
    let mut state = body.iter().fold(0x9e37_79b9_7f4a_7c15_u64, |sum, byte| sum.rotate_left(5) ^ u64::from(*byte));
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below.max(1)
    };
    (0..count).map(move |_| {
        let mut body = body.to_vec();
        for _ in 0..=random(3) {
            let (at, length) = (random(body.len()), random(40));
            let end = (at + length).min(body.len());
            match random(4) {
                0 => drop(body.drain(at..end)),
                1 => drop(body.splice(at..at, body[at..end].to_vec())),
                2 if at < body.len() => body[at] = b"{}[]\",:0\n\x00\xff"[random(11)],
                _ => body[at..end].reverse(),
            }
        }
        body
    })
}

#[test]
fn bodies_that_are_damaged_read_alike_in_pieces_and_never_come_to_more_than_was_sent() {
    for api in APIS {
        for case in cases(api) {
            for body in case.bodies() {
                for damaged in mutants(body.as_bytes(), 12) {
                    let shown = || String::from_utf8_lossy(&damaged).into_owned();
                    let (whole, _) = read(api, std::iter::once(&damaged[..]));
                    let (pieces, _) = read(api, damaged.chunks(7));
                    assert_eq!(shown_outcome(&pieces), shown_outcome(&whole), "{}", shown());
                    let Ok(answer) = whole else { continue };
                    assert!(!answer.text.trim().is_empty() || !answer.calls.is_empty(), "{}", shown());
                    assert!(answer.text.len() <= damaged.len() * 3 && answer.calls.len() < 20, "{}", shown());
                }
            }
        }
    }
}
