use super::*;

fn form(text: &str) -> Node {
    read(text).unwrap().form.unwrap()
}

fn printed(text: &str) -> String {
    form(text).to_string()
}

fn problem(text: &str) -> Problem {
    read(text).unwrap_err().problem
}

#[test]
fn every_element_reads_and_prints() {
    for (text, expected) in [
        ("nil", "nil"),
        ("true", "true"),
        ("[1 -2 +3 0 012 0xff 36rZ 2r101]", "[1 -2 3 0 10 255 35 5]"),
        ("[12N 123456789012345678901234567890]", "[12 123456789012345678901234567890N]"),
        ("[1.5 -0.25e3 1e10 1.]", "[1.5 -250.0 1.0E10 1.0]"),
        ("[1.25M 3M]", "[1.25M 3M]"),
        ("[1/3 4/2 -6/4]", "[1/3 2 -3/2]"),
        ("[##Inf ##-Inf ##NaN]", "[##Inf ##-Inf ##NaN]"),
        (
            r"[\a \newline \space \tab \return \formfeed \backspace]",
            r"[\a \newline \space \tab \return \formfeed \backspace]",
        ),
        (r"[\u0041 \u00e9 \o101 \( \\ \é]", r"[\A \é \A \( \\ \é]"),
        (r#""a\tb\n\"q\" \\ \u00e9 \101""#, r#""a\tb\n\"q\" \\ é A""#),
        (r#""\uD83D\uDE00""#, "\"😀\""),
        ("[:a :a/b :a.b/c-d :1 :+ a/b / -> 'x a#b]", "[:a :a/b :a.b/c-d :1 :+ a/b / -> 'x a#b]"),
        ("(1 2)", "(1 2)"),
        ("#{1 2}", "#{1 2}"),
        ("{:a 1, \"b\" 2}", "{:a 1, \"b\" 2}"),
        ("#my/tag [1]", "#my/tag [1]"),
        ("#inst \"2024-02-03T04:05:06.789Z\"", "#inst \"2024-02-03T04:05:06.789Z\""),
        ("#uuid \"f81d4fae-7dec-11d0-a765-00a0c91e6bf6\"", "#uuid \"f81d4fae-7dec-11d0-a765-00a0c91e6bf6\""),
        ("#:db{:id 1 :x/y 2 :_/z 3}", "{:db/id 1, :x/y 2, :z 3}"),
    ] {
        assert_eq!(printed(text), expected, "{text}");
    }
}

#[test]
fn comments_and_commas_are_blank() {
    assert_eq!(printed("; first\n[1,,,2 ; second\n 3]"), "[1 2 3]");
}

#[test]
fn discards_drop_the_next_form_wherever_they_stand() {
    for (text, expected) in [
        ("[1 #_2 3]", "[1 3]"),
        ("[1 #_6]", "[1]"),
        ("[#_ #_ 1 2 3]", "[3]"),
        ("[#_#_1 2]", "[]"),
        ("#_{:a 1} :b", ":b"),
        ("{:a #_1 2 #_:b}", "{:a 2}"),
        ("[#_ #tag 1 2]", "[2]"),
    ] {
        assert_eq!(printed(text), expected, "{text}");
    }
    assert_eq!(problem("[1 #_]"), Problem::MissingForm { after: "#_", found: ']' });
    assert_eq!(problem("#_"), Problem::EndAfter { after: "#_" });
}

#[test]
fn nothing_but_blank_is_no_form() {
    for text in ["", "  ,\n", "; only a comment", "#_ dropped"] {
        assert_eq!(read(text).unwrap().form, None, "{text:?}");
    }
}

#[test]
fn every_node_knows_its_byte_range() {
    let text = "{:é [1 \"x\"] #t {}  2}";
    let root = form(text);
    let cut = |node: &Node| &text[node.span.start..node.span.end];
    assert_eq!(cut(&root), text);
    let entries = root.as_map().unwrap();
    assert_eq!(cut(&entries[0].0), ":é");
    assert_eq!(cut(&entries[0].1), "[1 \"x\"]");
    assert_eq!(cut(&entries[0].1.as_vector().unwrap()[1]), "\"x\"");
    assert_eq!(cut(&entries[1].0), "#t {}");
}

#[test]
fn a_byte_order_mark_is_skipped() {
    assert_eq!(printed("\u{feff}{:a 1}"), "{:a 1}");
}

#[test]
fn metadata_is_read_dropped_and_reported() {
    let reading = read("[^:private x ^{:doc \"d\"} [1] #^String s]").unwrap();
    assert_eq!(reading.form.unwrap().to_string(), "[x [1] s]");
    assert_eq!(reading.metadata.len(), 3);
    assert_eq!(problem("^:a 1"), Problem::MetadataTarget);
    assert_eq!(problem("^1 x"), Problem::InvalidMetadata);
    assert_eq!(problem("[^:a]"), Problem::MissingForm { after: "^", found: ']' });
}

#[test]
fn unknown_tags_stay_and_are_listed() {
    let reading = read("[#my/tag 1 #inst \"2024\"]").unwrap();
    let tags: Vec<_> = reading.tags.iter().map(|(name, _)| name.to_string()).collect();
    assert_eq!(tags, ["my/tag"]);
}

#[test]
fn text_behind_the_first_form_is_reported_not_read() {
    let reading = read("{:a 1} ; fine\n ]]] not edn").unwrap();
    assert_eq!(reading.trailing.map(|span| span.start), Some(15));
    assert_eq!(read("{:a 1} ; fine").unwrap().trailing, None);
}

#[test]
fn duplicates_name_both_places() {
    let text = "{:a 1 :b 2 :a 3}";
    let error = read(text).unwrap_err();
    assert_eq!(error.problem, Problem::DuplicateKey(":a".into()));
    assert_eq!(&text[error.span.start..error.span.end], ":a");
    assert_eq!((error.span.start, error.related.unwrap().0.start), (11, 1));
    assert_eq!(problem("#{1 2 1N}"), Problem::DuplicateElement("1".into()));
    assert_eq!(problem("{[1 2] 1 (1 2) 2}"), Problem::DuplicateKey("(1 2)".into()));
    assert_eq!(problem("#{#my/tag [] #my/tag ()}"), Problem::DuplicateElement("#my/tag ()".into()));
    assert_eq!(problem("#{0.0 -0.0}"), Problem::DuplicateElement("-0.0".into()));
    assert_eq!(problem("#{#{1 2} #{2 1}}"), Problem::DuplicateElement("#{2 1}".into()));
    assert_eq!(problem("#{{:a 1 :b 2} {:b 2 :a 1}}"), Problem::DuplicateElement("{:b 2, :a 1}".into()));
    assert_eq!(printed("#{1 1.0 \"1\" \\1 :1}"), "#{1 1.0 \"1\" \\1 :1}");
}

#[test]
fn broken_brackets_name_the_one_that_was_opened() {
    let error = read("[1 (2 3]").unwrap_err();
    assert_eq!(error.problem, Problem::Mismatched { found: ']', expected: ')' });
    assert_eq!(error.related.unwrap().0.start, 3);
    assert_eq!(problem("]"), Problem::Unmatched { found: ']' });
    let error = read("{:steps [").unwrap_err();
    assert_eq!(error.problem, Problem::Unclosed { open: "[" });
    assert_eq!(error.related.unwrap().0.start, 8);
    assert_eq!(problem("\"abc"), Problem::UnclosedString);
    assert_eq!(problem("\"abc\\"), Problem::UnclosedString);
}

#[test]
fn what_is_not_edn_is_refused_with_its_reason() {
    for (text, expected) in [
        ("{:a}", "Map literal must contain an even number of forms"),
        ("#\"a+\"", "Regular expressions (#\"…\") are Clojure, not EDN"),
        ("#?(:clj 1)", "Reader conditionals (#?) are Clojure, not EDN"),
        ("#(+ 1 %)", "No dispatch macro for: ("),
        ("#'x", "No dispatch macro for: '"),
        ("#<Object>", "Unreadable form"),
        ("@x", "Invalid leading character: @"),
        ("a`b", "Invalid leading character: `"),
        ("::a", "Invalid token: ::a"),
        (":", "Invalid token: :"),
        ("a:", "Invalid token: a:"),
        ("a/", "Invalid token: a/"),
        ("/a", "Invalid token: /a"),
        ("1a", "Invalid number: 1a"),
        ("08", "Invalid number: 08"),
        ("1.5N", "Invalid number: 1.5N"),
        ("1/0", "Divide by zero: 1/0"),
        ("##Foo", "Unknown symbolic value: ##Foo"),
        (r"\uD800", r"Unsupported character: \uD800"),
        (r"\abc", r"Unsupported character: \abc"),
        (r"\o777", r"Unsupported character: \o777"),
        (r#""\q""#, r"Unsupported escape character: \q"),
        (r#""\u12""#, "Invalid unicode escape: \\u12\""),
        (r#""\uDE00""#, r"Invalid unicode escape: \uDE00"),
        (r#""\uéééé""#, r"Invalid unicode escape: \uéééé"),
        ("#inst \"soon\"", "Unrecognized date/time syntax: \"soon\""),
        ("#inst 5", "Unrecognized date/time syntax: 5"),
        ("#uuid \"1\"", "Invalid UUID string: \"1\""),
        ("#:a/b{:c 1}", "Namespaced map must specify a valid namespace: :a/b"),
        ("#:a [1]", "Namespaced map must specify a map"),
    ] {
        assert_eq!(read(text).unwrap_err().to_string(), expected, "{text}");
    }
}

#[test]
fn depth_and_size_are_limited() {
    let deep = "[".repeat(MAX_DEPTH) + &"]".repeat(MAX_DEPTH);
    assert!(read(&deep).is_ok());
    for open in ["[", "{", "(", "#{", "#_", "#t ", "^"] {
        assert_eq!(problem(&open.repeat(100_000)), Problem::TooDeep, "{open}");
    }
    assert_eq!(problem(&" ".repeat(MAX_BYTES + 1)), Problem::TooLong { bytes: MAX_BYTES + 1 });
}

mod properties {
    use super::super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_text_reads_or_is_refused(text in any::<String>()) {
            let _ = read(&text);
        }

        #[test]
        fn texts_made_of_edn_pieces_read_or_are_refused(
            pieces in proptest::collection::vec(
                prop::sample::select(vec![
                    "[", "]", "{", "}", "(", ")", "#{", "#_", "^", "#", "\\", "\"", "\\u", "é", "😀", ":a", "a/b", "1", "/", "N", "M",
                    ".", "e", "-", "##", "#:a", "#t", ";", "\n", " ", "\\uD83D", "nil", "0x", "r", "'", "@",
                ]),
                0..40,
            )
        ) {
            if let Ok(Reading { form: Some(node), .. }) = read(&pieces.concat()) {
                // What was read prints as something that reads as the same value.
                let printed = node.to_string();
                let again = read(&printed).map(|reading| reading.form.map(|node| node.to_string()));
                prop_assert_eq!(again, Ok(Some(printed)));
            }
        }
    }
}
