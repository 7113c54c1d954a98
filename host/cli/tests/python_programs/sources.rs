//! Source plugins in Python, and scripts of skills.

use super::*;

/// A source plugin, with helpers that are no operations.
const WORDS: &str = r#"
import dataclasses
from typing import Annotated

from opcell import Failure, files


@dataclasses.dataclass
class Count:
    words: int
    longest: str | None = None


def count_words(path: Annotated[str, "The file, below the root `texts`."], at_least: int = 1) -> Count:
    """Counts the words in a text file.

    Effects: pure
    """
    if at_least < 1:
        raise Failure("too-few", "a word has a letter")
    return _count(files.read_text("texts", path).split(), at_least)


async def divide(by: int) -> float:
    """Divides six."""
    return 6 / by


def _count(words, at_least):
    words = [word for word in words if len(word) >= at_least]
    return Count(len(words), max(words, key=len, default=None))
"#;

const WORDS_MANIFEST: &str = r#"[plugin]
name = "words"
version = "1.0.0"
description = "Counts words"
license = "Apache-2.0"

[[capabilities.files]]
name = "texts"
access = "read"
reason = "reads the texts to count"
"#;

#[test]
fn a_source_plugin_is_one_file_whose_functions_are_operations() {
    let Some(place) = Place::new("") else { return };
    place.write("words.py", WORDS);
    place.write("words.toml", WORDS_MANIFEST);
    fs::create_dir(place.path("texts")).unwrap();
    place.write("texts/a.txt", "a short text");
    let said = place.run(&["plugin", "add", "words.py"]);
    assert!(said.contains("added words 1.0.0 from words.py"), "{said}");
    assert!(said.contains("it asks for files texts: reads the texts to count"), "{said}");
    let listed = place.done(&["op", "list"]);
    assert!(listed.contains("words/count-words  pure") && listed.contains("words/divide"), "{listed}");
    assert!(!listed.contains("python/run") && !listed.contains("_count"), "{listed}");

    let invoke = |arguments: &[&str]| {
        let given = arguments.iter().flat_map(|argument| ["--args", argument]);
        let all: Vec<&str> = ["op", "invoke"].into_iter().chain(["words/count-words"]).chain(given).collect();
        place.run(&[&all[..], &["--quiet"]].concat())
    };
    let denied = invoke(&["path=a.txt"]);
    assert!(denied.contains("denied"), "{denied}");
    place.done(&["plugin", "grant", "words", "files", "texts=texts", "--quiet"]);
    let counted: Value = serde_json::from_str(&invoke(&["path=a.txt", "at_least=2"])).unwrap();
    assert_eq!(counted, json!({"words": 2, "longest": "short"}));
    assert!(invoke(&["path=a.txt", "at_least=0"]).contains("too-few: a word has a letter"));
    assert!(invoke(&["path=a.txt", "at_least=many"]).contains("invalid-arguments"));
    let thrown = place.run(&["op", "invoke", "words/divide", "--args", "by=0", "--quiet"]);
    assert!(thrown.contains("exception: ZeroDivisionError") && thrown.contains("words.py:26"), "{thrown}");

    // Another source is another version.
    place.write("words.py", &WORDS.replace(">= at_least", "> at_least"));
    let said = invoke(&["path=a.txt"]);
    assert!(said.contains("plugin-changed") && said.contains("not the one that was agreed to"), "{said}");
    place.done(&["plugin", "update", "words", "--quiet"]);
    let counted: Value = serde_json::from_str(&invoke(&["path=a.txt", "at_least=4"])).unwrap();
    assert_eq!(counted["words"], json!(1));
}

#[test]
fn a_source_that_is_no_plugin_is_refused_with_its_place() {
    let Some(place) = Place::new("") else { return };
    for (source, said) in [
        (
            "def f():\n    \"\"\"Doc.\"\"\"\n    return 1 +\n",
            "op.py: SyntaxError: invalid syntax, at op.py:3: `return 1 +`",
        ),
        ("def f(a: int) -> int:\n    return a\n", "the public function `f` has no docstring"),
        ("import requests\n", "a source plugin is one file, and has the modules of the runtime, at op.py:1"),
    ] {
        place.write("op.py", source);
        // One line, however wide the terminal is.
        let found = place.run(&["plugin", "check", "op.py", "--json"]).replace("\\\"", "\"");
        assert!(found.contains(said), "{source}: {found}");
    }
}

#[test]
fn a_new_source_plugin_passes_its_case_and_describes_itself_with_the_sdk_as_well() {
    let Some(place) = Place::new("") else { return };
    place.done(&["plugin", "new", "greeter", "--lang", "python", "--source"]);
    place.done(&["plugin", "test", "greeter/plugin.py"]);
    place.write(
        "op.py",
        "import opcell\n\n@opcell.operation('op/twice', effects='pure')\ndef twice(n: int) -> int:\n    \"\"\"Doubles.\"\"\"\n    return 2 * n\n\n\
         def helper(n):\n    return n\n",
    );
    place.done(&["plugin", "add", "op.py", "--quiet"]);
    assert_eq!(place.done(&["op", "invoke", "op/twice", "--args", "n=4", "--quiet"]).trim(), "8");
    assert!(!place.done(&["op", "list"]).contains("helper"));
}

#[test]
fn a_script_of_a_skill_is_a_tool_that_is_pinned_and_reads_the_folder_of_its_skill() {
    let Some(place) = Place::new(
        "workflows = [\".\"]\nskill-folders = [\"skills\"]\n\n[skills.counting]\n\n[sessions]\nscript = \"script.yaml\"\n\n[journal]\n",
    ) else {
        return;
    };
    let count = "from opcell import files\n\ndef count(path: str) -> int:\n    \"\"\"Counts words in one of the skill's files.\"\"\"\n    \
                 return len(files.read_text('skill', path).split())\n";
    fs::create_dir_all(place.path("skills/counting/scripts")).unwrap();
    place.write("skills/counting/SKILL.md", "---\nname: counting\ndescription: Counts words\n---\nCount words.\n");
    place.write("skills/counting/words.txt", "one two three");
    place.write("skills/counting/scripts/count.py", count);
    let call = json!({"name": "skill/counting/count", "arguments": {"path": "words.txt"}});
    let script = json!({"version": 1, "order": "any", "turns": [
        {"when": {"round": 0}, "tool-calls": [call]}, {"when": {"round": 1}, "repeat": true, "text": "Three."},
    ]});
    place.write("script.yaml", &script.to_string());
    place.write(
        "count.edn",
        r#"{:name "count" :description "Counts" :steps [{:name "count" :type :session :skills ["counting"]
            :tools ["read" "skill/counting/count"] :contributions [{:type :template :text "How many?"}]}]}"#,
    );
    let asked = place.run(&["run", "count", "--quiet"]);
    assert!(
        asked.contains("models call skill/counting/count (skills/counting/scripts/count.py), in a cell"),
        "{asked}"
    );
    place.done(&["trust"]);
    place.done(&["run", "count", "--as", "first", "--quiet"]);
    let shown = place.done(&["runs", "show", "first", "--json"]);
    assert!(shown.contains("skill.counting.count"), "{shown}");
    let full = place.done(&["runs", "show", "first", "--full"]);
    assert!(full.contains("read words.txt") || full.contains("words.txt"), "{full}");

    place.write("skills/counting/scripts/count.py", &count.replace("split()", "split(' ')"));
    let refused = place.run(&["run", "count", "--as", "second", "--quiet"]);
    assert!(refused.contains("plugin-changed"), "{refused}");
    place.done(&["plugin", "update", "skill.counting.count", "--quiet"]);
    place.done(&["run", "count", "--as", "third", "--quiet"]);
}
