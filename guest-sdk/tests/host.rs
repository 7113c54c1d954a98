//! The clients of what the host offers, against the test host.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use opcell_sdk::files::{self, EntryKind, FileErrorKind};
use opcell_sdk::log::{Level, progress};
use opcell_sdk::testing::Host;
use opcell_sdk::{Failure, log, skills, store, tools};
use serde_json::{Value, json};
use std::io::{Read, Write};

#[test]
fn a_tool_call_is_typed_on_both_sides() {
    let host = Host::new()
        .tool("math.add", |terms| Ok(json!(terms[0].as_i64().unwrap() + terms[1].as_i64().unwrap())))
        .install();

    assert_eq!(tools::call::<_, i64>("math.add", &(2, 3)), Ok(5));
    let mismatch = tools::call::<_, String>("math.add", &(2, 3)).unwrap_err();
    assert_eq!(Failure::from(mismatch).reason, "tool-mismatch");
    assert_eq!(tools::list().into_iter().map(|tool| tool.name).collect::<Vec<_>>(), ["math.add"]);
    assert_eq!(host.tool_calls(), vec![("math.add".to_owned(), json!([2, 3])); 2]);
}

#[test]
fn a_failing_tool_keeps_its_reason_and_details() {
    let _host =
        Host::new().tool("t", |_| Err(Failure::new("too-late", "closed").with_details(json!({ "hour": 9 })))).install();

    let failure = Failure::from(tools::call::<_, Value>("t", &()).unwrap_err());

    assert_eq!(failure, Failure::new("too-late", "closed").with_details(json!({ "hour": 9 })));
}

#[test]
fn what_was_not_granted_is_a_denial_that_says_what_to_do() {
    let _host = Host::new().install();

    let failures: [Failure; 3] = [
        tools::call::<_, Value>("http.fetch", &()).unwrap_err().into(),
        skills::read("manners").unwrap_err().into(),
        files::open_root("workspace").unwrap_err().into(),
    ];

    let capabilities = failures.map(|failure| {
        assert_eq!(failure.reason, "denied");
        let details = failure.details.unwrap();
        assert!(failure.message.contains(details["remedy"].as_str().unwrap()), "{}", failure.message);
        details["capability"].as_str().unwrap().to_owned()
    });
    assert_eq!(capabilities, ["tool http.fetch", "skill manners", "files workspace"]);
}

#[test]
#[should_panic(expected = "unexpected host call: tool http.fetch")]
fn a_strict_host_fails_the_test_instead() {
    let _host = Host::new().strict().install();

    let _ = tools::call::<_, Value>("http.fetch", &());
}

#[test]
#[should_panic(expected = "install an opcell_sdk::testing::Host first")]
fn a_call_without_a_host_fails_the_test() {
    let _ = tools::list();
}

#[test]
fn skills_are_read_with_their_resources() {
    let _host = Host::new()
        .skill("manners", "how to greet", "Say hello.")
        .skill_resource("manners", "a/b.txt", b"hi")
        .install();

    assert_eq!(skills::list().first().map(|skill| skill.description.as_str()), Some("how to greet"));
    assert_eq!(skills::read("manners").unwrap(), "Say hello.");
    assert_eq!(skills::read_resource("manners", "a/b.txt").unwrap(), b"hi");
    assert_eq!(Failure::from(skills::read_resource("manners", "c").unwrap_err()).reason, "not-found");
}

#[test]
fn a_store_keeps_compares_lists_and_deletes() {
    let host = Host::new().store("counts", [("b", "1"), ("a", "2")]).install();

    let entry = store::get("counts", "a").unwrap().unwrap();
    assert_eq!((entry.value.as_slice(), entry.version), (b"2".as_slice(), 2));
    assert!(matches!(store::compare_and_set("counts", "a", Some(1), "x").unwrap(), store::Swap::Conflict(Some(_))));
    assert_eq!(store::compare_and_set("counts", "a", Some(2), "3").unwrap(), store::Swap::Stored(3));
    let page = store::list("counts", "", None, 1).unwrap();
    assert_eq!((page.keys, page.more), (vec!["a".to_owned()], true));
    assert_eq!(store::list("counts", "", Some("a"), 9).unwrap().keys, ["b"]);
    assert!(store::delete("counts", "b").unwrap() && !store::delete("counts", "b").unwrap());
    assert_eq!(host.stored("counts", "a").unwrap(), b"3");
    assert_eq!(Failure::from(store::get("others", "a").unwrap_err()).reason, "denied");
}

fn tree() -> Host {
    Host::new()
        .strict()
        .files("src", [("b/two.txt", "2"), ("a.txt", "one\nmore"), ("b/c/three.txt", "3"), ("bin", "\u{0}")])
}

#[test]
fn a_directory_lists_opens_and_describes() {
    let _host = tree().install();
    let root = files::open_root("src").unwrap();

    let entries = root.entries().unwrap();
    assert_eq!(
        entries.iter().map(|entry| (entry.name.as_str(), entry.kind, entry.size)).collect::<Vec<_>>(),
        [("a.txt", EntryKind::File, 8), ("b", EntryKind::Directory, 0), ("bin", EntryKind::File, 1)]
    );
    assert_eq!(root.open_directory("b/c").unwrap().read_to_string("three.txt").unwrap(), "3");
    assert_eq!(root.metadata("b/two.txt").unwrap().size, 1);
}

#[test]
fn a_walk_goes_depth_first_and_can_pass_over() {
    let _host = tree().install();
    let root = files::open_root("src").unwrap();

    let all: Vec<_> = root.walk().map(|entry| entry.unwrap().path).collect();
    let some: Vec<_> = root.walk_where(|entry| entry.name() != "c").map(|entry| entry.unwrap().path).collect();

    assert_eq!(all, ["a.txt", "b", "b/c", "b/c/three.txt", "b/two.txt", "bin"]);
    assert_eq!(some, ["a.txt", "b", "b/two.txt", "bin"]);
}

#[test]
fn a_file_is_read_whole_in_part_and_as_a_stream() {
    let text = "0123456789".repeat(10_000);
    let _host = Host::new().strict().files("src", [("long", text.clone())]).install();
    let root = files::open_root("src").unwrap();

    assert_eq!(root.read_to_string("long").unwrap(), text);
    assert_eq!(root.open("long").unwrap().read_up_to(12).unwrap(), b"012345678901");
    let mut file = root.open("long").unwrap();
    assert_eq!(
        (file.size().unwrap(), file.read_at(99_998, 10).unwrap(), file.read_at(200_000, 1).unwrap()),
        (100_000, b"89".to_vec(), vec![])
    );
    let mut streamed = String::new();
    file.read_to_string(&mut streamed).unwrap();
    assert_eq!(streamed, text);
}

#[test]
fn errors_name_the_path() {
    let _host = tree().install();
    let root = files::open_root("src").unwrap();
    let below = root.open_directory("b").unwrap();

    let kind = |result: Result<_, files::FileError>| result.map(|_: String| ()).unwrap_err();
    let missing = kind(below.read_to_string("x"));
    assert_eq!((missing.path.as_str(), &missing.kind), ("src/b/x", &FileErrorKind::NotFound));
    assert_eq!(missing.to_string(), "src/b/x does not exist");
    assert_eq!(kind(root.read_to_string("b")).kind, FileErrorKind::NotAFile);
    assert_eq!(root.open_directory("a.txt").unwrap_err().kind, FileErrorKind::NotADirectory);
    assert_eq!(Failure::from(missing).reason, "file-not-found");
}

#[test]
fn nothing_leaves_its_root_and_nothing_is_written_without_the_grant() {
    let _host = tree().install();
    let root = files::open_root("src").unwrap();

    for path in ["../x", "/etc/passwd", "b/../../x"] {
        assert_eq!(Failure::from(root.read(path).unwrap_err()).reason, "denied", "{path}");
    }
    assert_eq!(Failure::from(root.write("new", b"x").unwrap_err()).reason, "denied");
    assert_eq!(Failure::from(root.remove("a.txt").unwrap_err()).reason, "denied");
    assert_eq!(Failure::from(root.create_directory("d").unwrap_err()).reason, "denied");
}

#[test]
fn a_writable_root_takes_files_and_directories() {
    let host = Host::new().strict().writable_files("out", [("old", "x")]).install();
    let root = files::open_root("out").unwrap();

    root.create_directory("d").unwrap();
    assert_eq!(root.create_directory("d").unwrap_err().kind, FileErrorKind::AlreadyExists);
    write!(root.create("d/new").unwrap(), "{} and {}", 1, 2).unwrap();
    root.write("old", b"y").unwrap();

    assert_eq!(host.file("out", "d/new").unwrap(), b"1 and 2");
    assert_eq!(host.file("out", "old").unwrap(), b"y");
    assert!(root.remove("d").unwrap_err().to_string().contains("not empty"));
    root.remove("d/new").unwrap();
    root.remove("d").unwrap();
    assert_eq!(root.remove("d").unwrap_err().kind, FileErrorKind::NotFound);
}

#[test]
fn messages_and_progress_reach_the_operator() {
    let host = Host::new().strict().install();

    log!(warn, "{} left", 3);
    progress(1, 0, "reading");

    assert_eq!(host.messages(), [(Level::Warn, "3 left".to_owned())]);
    assert_eq!(host.progress(), [(1, 0, "reading".to_owned())]);
}
