//! What files are about: headings of documents, top-level items of sources.

use crate::counted;
use crate::scan::{Scope, extension};
use opcell_sdk::{Failure, Success};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const MAX_FILES: u32 = 60;
const MAX_ITEMS: u32 = 400;
const MAX_FILE_BYTES: u64 = 256 * 1024;

/// What `repo/outline` takes.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", default)]
#[schemars(extend("additionalProperties" = false))]
pub struct OutlineArguments {
    /// Where to look.
    #[serde(flatten)]
    scope: Scope,
    /// Extensions of the files to read; `md` unless given. Known are md, rs, py, js, ts, go, java and clj.
    extensions: Option<Vec<String>>,
    /// Files to read, at most; 60 unless given.
    max_files: Option<u32>,
    /// Items to list, at most; 400 unless given.
    max_items: Option<u32>,
}

/// What the files are about.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Outline {
    /// Those that have anything to list.
    pub files: Vec<FileOutline>,
    /// Whether there is more than was listed.
    pub truncated: bool,
}

/// One file.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct FileOutline {
    /// Relative to the scope.
    pub path: String,
    /// In the file's order.
    pub items: Vec<Item>,
}

/// One heading or item.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Item {
    /// From 1.
    pub line: u64,
    /// `h1` to `h6`, or the keyword, such as `fn`.
    pub kind: String,
    /// The heading's text, or the item's name.
    pub name: String,
}

/// How top-level items of a language begin: words that say nothing about the kind, then the kind, then the name.
struct Language {
    extensions: &'static [&'static str],
    modifiers: &'static [&'static str],
    kinds: &'static [&'static str],
}

const LANGUAGES: [Language; 6] = [
    Language {
        extensions: &["rs"],
        modifiers: &["pub", "pub(crate)", "pub(super)", "async", "const", "unsafe", "extern", "\"C\""],
        kinds: &["fn", "struct", "enum", "trait", "mod", "type", "union", "static", "macro_rules!"],
    },
    Language { extensions: &["py"], modifiers: &["async"], kinds: &["def", "class"] },
    Language {
        extensions: &["js", "mjs", "ts"],
        modifiers: &["export", "default", "async", "abstract", "declare"],
        kinds: &["function", "class", "interface", "enum", "type", "const"],
    },
    Language { extensions: &["go"], modifiers: &[], kinds: &["func", "type"] },
    Language {
        extensions: &["java"],
        modifiers: &["public", "abstract", "final", "sealed"],
        kinds: &["class", "interface", "enum", "record"],
    },
    Language {
        extensions: &["clj"],
        modifiers: &[],
        kinds: &["(ns", "(def", "(defn", "(defn-", "(defmacro", "(deftest"],
    },
];

pub fn draw(arguments: &OutlineArguments) -> Result<Success<Outline>, Failure> {
    let scan = arguments.scope.scan()?;
    let wanted = |name: &str| match &arguments.extensions {
        Some(extensions) => extensions.contains(&extension(name)),
        None => extension(name) == "md",
    };
    let max_files = arguments.max_files.unwrap_or(MAX_FILES) as usize;
    let max_items = arguments.max_items.unwrap_or(MAX_ITEMS) as usize;
    let mut outline = Outline { files: Vec::new(), truncated: scan.truncated };
    let mut listed = 0;
    for (index, file) in scan.files.iter().filter(|file| wanted(file.name())).enumerate() {
        if index >= max_files || listed >= max_items {
            outline.truncated = true;
            break;
        }
        let Some(text) = scan.text(file, MAX_FILE_BYTES) else { continue };
        let mut items = items(&extension(file.name()), &text);
        if items.len() > max_items - listed {
            items.truncate(max_items - listed);
            outline.truncated = true;
        }
        listed += items.len();
        if !items.is_empty() {
            outline.files.push(FileOutline { path: file.path.clone(), items });
        }
    }
    let summary = format!("{} in {}", counted(listed as u64, "item"), counted(outline.files.len() as u64, "file"));
    Ok(Success::new(outline).with_summary(summary))
}

fn items(extension: &str, text: &str) -> Vec<Item> {
    if extension == "md" {
        return headings(text);
    }
    let Some(language) = LANGUAGES.iter().find(|language| language.extensions.contains(&extension)) else {
        return Vec::new();
    };
    let lines = text.lines().enumerate();
    lines.filter_map(|(number, line)| item(language, line).map(|(kind, name)| named(number, kind, name))).collect()
}

fn named(number: usize, kind: &str, name: &str) -> Item {
    Item { line: number as u64 + 1, kind: kind.trim_matches(['(', '!']).to_owned(), name: name.to_owned() }
}

/// Kind and name, if the line begins a top-level item: one at the start of the line.
fn item<'a>(language: &Language, line: &'a str) -> Option<(&'a str, &'a str)> {
    if line.starts_with(char::is_whitespace) {
        return None;
    }
    let mut words = line.split_whitespace();
    // A word may be both, as Rust's `const`: it is the kind only where no other follows.
    let kind = words.by_ref().find(|word| !language.modifiers.contains(word))?;
    if !language.kinds.contains(&kind) {
        return None;
    }
    let rest = words.next()?;
    let is_part = |character: char| character.is_alphanumeric() || "_-$".contains(character);
    let end = rest.find(|character| !is_part(character)).unwrap_or(rest.len());
    rest.get(..end).filter(|name| !name.is_empty()).map(|name| (kind, name))
}

/// ATX headings outside of fenced code.
fn headings(text: &str) -> Vec<Item> {
    let mut items = Vec::new();
    let mut fence: Option<&str> = None;
    for (number, line) in text.lines().enumerate() {
        let marker = ["```", "~~~"].into_iter().find(|marker| line.trim_start().starts_with(marker));
        match (fence, marker) {
            (None, Some(opened)) => fence = Some(opened),
            (Some(opened), Some(closed)) if opened == closed => fence = None,
            (None, None) => {
                let level = line.bytes().take_while(|byte| *byte == b'#').count();
                let title = line.get(level..).filter(|rest| rest.starts_with(' ')).map(str::trim).unwrap_or_default();
                if (1..=6).contains(&level) && !title.is_empty() {
                    items.push(named(number, &format!("h{level}"), title.trim_end_matches('#').trim_end()));
                }
            }
            _ => {}
        }
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw_outline;
    use opcell_sdk::testing::{Host, invoke};
    use serde_json::json;

    fn listed(extension: &str, text: &str) -> Vec<String> {
        items(extension, text).into_iter().map(|item| format!("{} {} {}", item.line, item.kind, item.name)).collect()
    }

    #[test]
    fn headings_outside_of_code_are_listed() {
        let text = "# One\n```sh\n# not one\n~~~\n```\n### Three ###\n#hash\n####### seven\n#  \n";

        assert_eq!(listed("md", text), ["1 h1 One", "6 h3 Three"]);
    }

    #[test]
    fn top_level_items_are_listed_by_their_language() {
        let rust = "pub(crate) async fn go<T>() {}\n  fn inner() {}\npub struct Point;\nmacro_rules! twice {\nuse x::fn_;\nlet x = 1;";
        assert_eq!(
            listed("rs", rust),
            ["1 fn go", "3 struct Point", "5 macro_rules twice"].map(|line| line.replace("5 ", "4 "))
        );
        assert_eq!(listed("py", "class A:\n    def b(self): ...\nasync def c(): ..."), ["1 class A", "3 def c"]);
        assert_eq!(
            listed("ts", "export default async function main() {}\nexport type Id = string"),
            ["1 function main", "2 type Id"]
        );
        assert_eq!(listed("go", "func Run() {}\nfunc (s *S) Method() {}"), ["1 func Run"]);
        assert_eq!(listed("clj", "(ns a.b)\n(defn- run [x]"), ["1 ns a", "2 defn- run"]);
        assert_eq!(listed("txt", "# no"), Vec::<String>::new());
    }

    #[test]
    fn an_outline_is_bounded_by_files_and_by_items() {
        let _host = Host::new()
            .strict()
            .files("workspace", [("a.md", "# 1\n# 2\n# 3"), ("b.md", "# 4"), ("c.rs", "fn c() {}")])
            .install();
        let outline = |more| invoke::<draw_outline>(&more).unwrap().data;

        assert_eq!(outline(json!({}))["files"].as_array().unwrap().len(), 2);
        assert_eq!(outline(json!({}))["truncated"], false);
        assert_eq!(
            outline(json!({ "extensions": ["rs"] }))["files"][0]["items"][0],
            json!({ "line": 1, "kind": "fn", "name": "c" })
        );
        for bounded in [json!({ "max-files": 1 }), json!({ "max-items": 3 }), json!({ "max-items": 2 })] {
            let outline = outline(bounded.clone());
            assert_eq!(
                (outline["files"].as_array().unwrap().len(), &outline["truncated"]),
                (1, &json!(true)),
                "{bounded}"
            );
        }
    }
}
