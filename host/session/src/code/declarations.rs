//! The tools of a session as declarations that a model reads before it writes a program. Pure: the same tools give the
//! same text.

use super::types::{Syntax, Types, in_comment, in_order, is_identifier, needs_nothing, quoted};
use opcell_ir::ir::CodeMode;
use opcell_types::ToolDescription;
use serde_json::Value as Json;
use std::{collections::HashMap, fmt::Write as _};

/// Maximum bytes of the declarations in a prompt; beyond them tools are found by searching.
pub const MAX_BYTES: usize = 32 << 10;

/// The part of these that names what is left out.
const MAX_NAMES: usize = 4 << 10;

/// The function of a program that finds tools which are not declared.
pub const SEARCH: &str = "search_tools";

/// The function of a program that gives declarations.
pub const DESCRIBE: &str = "describe_tools";

/// Tools that one search finds, and that are described at once.
pub(super) const MAX_FOUND: usize = 20;

impl Syntax {
    pub(super) fn of(language: CodeMode) -> Self {
        match language {
            CodeMode::Python => Self::Python,
            _ => Self::TypeScript,
        }
    }

    /// The declarations of the functions that find tools which are not declared.
    fn finders(self) -> String {
        let (search, describe) = (
            "Finds further tools by words in their names and descriptions.",
            "Returns the declarations of tools, as these are.",
        );
        match self {
            Self::TypeScript => format!(
                "  /** {search} */\n  {SEARCH}(args: {{ query: string }}): Promise<{{ name: string; call: string; \
                 summary: string }}[]>;\n  /** {describe} */\n  {DESCRIBE}(args: {{ names: string[] }}): \
                 Promise<string>;\n"
            ),
            Self::Python => format!(
                "    async def {SEARCH}(*, query: str) -> list[{{\"name\": str, \"call\": str, \"summary\": str}}]:\n        \
                 \"\"\"{search}\"\"\"\n    async def {DESCRIBE}(*, names: list[str]) -> str:\n        \
                 \"\"\"{describe}\"\"\"\n"
            ),
        }
    }

    fn whole(self, declared: &str) -> String {
        match self {
            Self::TypeScript => format!("declare const tools: {{\n{declared}}};"),
            Self::Python if declared.is_empty() => "class tools: ...".to_owned(),
            Self::Python => format!("class tools:\n{}", declared.trim_end()),
        }
    }
}

/// Declarations of tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declarations {
    /// Such as `declare const tools: { … };` or `class tools: …`, with a sentence about what is left out.
    pub text: String,
    /// The number of tools that are not declared.
    pub left_out: usize,
}

/// The detail of declarations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    /// Everything.
    Full,
    /// The first sentence of each tool, and nothing on properties.
    Brief,
    /// Types alone.
    Bare,
}

/// Declares tools in the greatest detail that fits; if none does, as many tools as fit, and two functions to find the
/// others.
#[must_use]
pub fn declare(language: CodeMode, tools: &[ToolDescription], most: usize) -> Declarations {
    let syntax = Syntax::of(language);
    let names = Names::new(syntax, tools.iter().map(|tool| tool.name.as_str()).chain([SEARCH, DESCRIBE]));
    for detail in [Detail::Full, Detail::Brief, Detail::Bare] {
        let declared: Vec<String> = tools.iter().map(|tool| one(tool, &names, detail)).collect();
        if declared.iter().map(String::len).sum::<usize>() <= most {
            return Declarations { text: syntax.whole(&declared.concat()), left_out: 0 };
        }
    }
    let room = most.saturating_sub(MAX_NAMES);
    let mut text = syntax.finders();
    let mut left_out: Vec<&str> = Vec::new();
    for tool in tools {
        let declared = one(tool, &names, Detail::Brief);
        if left_out.is_empty() && text.len() + declared.len() <= room {
            text.push_str(&declared);
        } else {
            left_out.push(&tool.name);
        }
    }
    let mut text = syntax.whole(&text);
    let _ = write!(text, "\n{} more tools are not declared here: find them with `tools.{SEARCH}`, ", left_out.len());
    let _ = write!(text, "and read their declarations with `tools.{DESCRIBE}`. They are: ");
    let names = left_out.iter().map(|name| in_comment(name, MAX_NAME));
    text.push_str(&listed(names, left_out.len(), MAX_NAMES));
    Declarations { text, left_out: left_out.len() }
}

/// Longest name that is listed, in bytes.
const MAX_NAME: usize = 100;

fn listed(names: impl Iterator<Item = String>, count: usize, most: usize) -> String {
    let mut text = String::new();
    for (at, name) in names.enumerate() {
        if text.len() + name.len() > most {
            let _ = write!(text, " and {} more", count - at);
            break;
        }
        let _ = write!(text, "{}{name}", if at == 0 { "" } else { ", " });
    }
    text + "."
}

/// Bytes of the types of one tool's arguments, and of its results, as far as they are bounded one by one.
const MAX_TYPE: usize = 4_000;

/// Bytes of a tool's description.
const MAX_DESCRIPTION: usize = 800;

/// Bytes of a tool's first sentence.
const MAX_SENTENCE: usize = 140;

/// The declaration of one tool, as a member of `tools`.
fn one(tool: &ToolDescription, names: &Names<'_>, detail: Detail) -> String {
    let (most, comments) = match detail {
        Detail::Full => (MAX_TYPE, true),
        Detail::Brief => (MAX_TYPE / 4, false),
        Detail::Bare => (MAX_TYPE / 16, false),
    };
    let said = match detail {
        Detail::Full => in_comment(&tool.description, MAX_DESCRIPTION),
        Detail::Brief => first_sentence(&tool.description),
        Detail::Bare => String::new(),
    };
    let (spelled, remark) = names.spelled(&tool.name);
    let comment = [remark, said].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
    match names.syntax {
        Syntax::TypeScript => typescript(tool, &spelled, &comment, most, comments),
        Syntax::Python => python(tool, &spelled, &comment, most, comments),
    }
}

fn typescript(tool: &ToolDescription, spelled: &str, comment: &str, most: usize, comments: bool) -> String {
    let types = |schema: &Json| Types::new(Syntax::TypeScript, schema, most, comments).write();
    let parameters = Json::from(&tool.parameters);
    let arguments = match types(&parameters).as_str() {
        "{}" => String::new(),
        of if needs_nothing(&parameters) => format!("args?: {of}"),
        of => format!("args: {of}"),
    };
    let results = tool.results.as_ref().map(Json::from);
    let results = results.map_or_else(|| Syntax::TypeScript.unknown().to_owned(), |schema| types(&schema));
    let comment = if comment.is_empty() { String::new() } else { format!("  /** {comment} */\n") };
    format!("{comment}  {spelled}({arguments}): Promise<{results}>;\n")
}

/// Properties of a tool's arguments that are written as parameters.
const MAX_PARAMETERS: usize = 64;

/// Bytes of the remark on a parameter.
const MAX_REMARK: usize = 160;

fn python(tool: &ToolDescription, spelled: &str, comment: &str, most: usize, comments: bool) -> String {
    let results = tool.results.as_ref().map(Json::from);
    let types = |schema: Json| Types::new(Syntax::Python, &schema, most, false).write();
    let results = results.map_or_else(|| Syntax::Python.unknown().to_owned(), types);
    let (arguments, remarks) = python_parameters(&Json::from(&tool.parameters), most, comments);
    // Neither quotes nor backslashes may end the text.
    let inert = |text: &str| text.replace('\\', "\\\\").replace("\"\"\"", "'''");
    let said = [comment].into_iter().chain(remarks.iter().map(String::as_str)).filter(|text| !text.is_empty());
    let said: Vec<String> = said.map(inert).collect();
    if spelled.starts_with('"') {
        // Such a name cannot be defined, and is found nevertheless.
        let head = format!("    # tools[{spelled}]({arguments}) -> {results}\n");
        return said.iter().fold(head, |text, line| format!("{text}    #   {line}\n"));
    }
    let head = format!("    async def {spelled}({arguments}) -> {results}:");
    match said.is_empty() {
        true => format!("{head} ...\n"),
        false => format!("{head}\n        \"\"\"{}\"\"\"\n", said.join("\n        ")),
    }
}

/// The parameters of a tool, and the remarks on them. An object of other names than Python has is one argument.
fn python_parameters(schema: &Json, most: usize, comments: bool) -> (String, Vec<String>) {
    let none = serde_json::Map::new();
    let object = schema.as_object().unwrap_or(&none);
    let properties = object.get("properties").and_then(Json::as_object).unwrap_or(&none);
    let all = in_order(object, properties);
    if all.is_empty() || all.len() > MAX_PARAMETERS || all.iter().any(|(name, _)| !is_parameter(name)) {
        return match Types::new(Syntax::Python, schema, most, false).write() {
            of if of == "{}" => (String::new(), Vec::new()),
            of if needs_nothing(schema) => (format!("arguments: {of} = {{}}"), Vec::new()),
            of => (format!("arguments: {of}"), Vec::new()),
        };
    }
    let (mut parts, mut remarks, mut left) = (vec!["*".to_owned()], Vec::new(), most);
    for (name, is_required) in all {
        if left == 0 {
            parts.push("**more: Any".to_owned());
            break;
        }
        let Some(property) = properties.get(name) else { continue };
        let of = Types::new(Syntax::Python, schema, left, false).of(property);
        let part = format!("{name}: {of}{}", if is_required { "" } else { " = ..." });
        left = left.saturating_sub(part.len());
        parts.push(part);
        if let Some(text) = property.get("description").and_then(Json::as_str).filter(|_| comments) {
            let remark = format!("{name}: {}", in_comment(text, MAX_REMARK));
            left = left.saturating_sub(remark.len());
            remarks.push(remark);
        }
    }
    (parts.join(", "), remarks)
}

/// Returns `true` for the name of a parameter in Python.
fn is_parameter(name: &str) -> bool {
    is_identifier(name) && !name.contains('$') && !PYTHON_KEYWORDS.contains(&name)
}

/// The keywords of Python, which cannot be identifiers.
const PYTHON_KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
    "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal",
    "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

/// The first sentence of a description, cut to a readable length.
pub(super) fn first_sentence(text: &str) -> String {
    let text = text.trim();
    let line = text.lines().next().unwrap_or_default();
    let sentence = line.split_once(". ").map_or(line, |(first, _)| first).trim_end_matches('.');
    in_comment(sentence, MAX_SENTENCE)
}

/// Names of tools as programs write them.
pub(super) struct Names<'a> {
    all: HashMap<&'a str, ()>,
    /// The number of names that are written as an identifier.
    identifiers: HashMap<String, usize>,
    syntax: Syntax,
}

impl<'a> Names<'a> {
    pub(super) fn new(syntax: Syntax, names: impl Iterator<Item = &'a str>) -> Self {
        let (mut all, mut identifiers) = (HashMap::new(), HashMap::new());
        for name in names {
            if all.insert(name, ()).is_none() {
                *identifiers.entry(as_identifier(syntax, name)).or_default() += 1;
            }
        }
        Self { all, identifiers, syntax }
    }

    /// A tool as a member of `tools`, and a remark where that is not its name. As the runtimes find tools.
    fn spelled(&self, name: &str) -> (String, String) {
        let identifier = as_identifier(self.syntax, name);
        if name == "then" && self.syntax == Syntax::TypeScript {
            // A promise would take `tools` for another one.
            return (quoted(name), "Called by `call(\"then\", args)`.".to_owned());
        }
        if identifier == name && is_identifier(name) {
            return (identifier, String::new());
        }
        let is_alone = self.identifiers.get(&identifier) == Some(&1) && !self.all.contains_key(identifier.as_str());
        match is_alone && is_identifier(&identifier) {
            true => (identifier, format!("`{}`:", in_comment(name, MAX_NAME))),
            false => (quoted(name), String::new()),
        }
    }

    /// The expression that calls a tool.
    pub(super) fn call(&self, name: &str) -> String {
        let arguments = match self.syntax {
            Syntax::TypeScript => "args",
            Syntax::Python => "...",
        };
        match self.spelled(name).0 {
            spelled if name == "then" && self.syntax == Syntax::TypeScript => format!("call({spelled}, args)"),
            spelled if spelled.starts_with('"') => format!("tools[{spelled}]({arguments})"),
            spelled => format!("tools.{spelled}({arguments})"),
        }
    }
}

/// A name with `_` for what no identifier has.
fn as_identifier(syntax: Syntax, name: &str) -> String {
    let dollar = syntax == Syntax::TypeScript;
    let part = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '$' && dollar { c } else { '_' };
    let written: String = name.chars().map(part).collect();
    let is_keyword = syntax == Syntax::Python && PYTHON_KEYWORDS.contains(&written.as_str());
    if is_keyword { written + "_" } else { written }
}

/// The declarations of these tools in full, each once; names that there are none of are said.
pub(super) fn describe(language: CodeMode, tools: &[ToolDescription], asked: &[&str]) -> String {
    let syntax = Syntax::of(language);
    let names = Names::new(syntax, tools.iter().map(|tool| tool.name.as_str()).chain([SEARCH, DESCRIBE]));
    let is_asked = |tool: &&ToolDescription| {
        asked.iter().any(|asked| *asked == tool.name || *asked == names.spelled(&tool.name).0)
    };
    let found: Vec<&ToolDescription> = tools.iter().filter(is_asked).take(MAX_FOUND).collect();
    let declared: String = found.iter().map(|tool| one(tool, &names, Detail::Full)).collect();
    let is_found =
        |asked: &&&str| found.iter().any(|tool| **asked == tool.name || **asked == names.spelled(&tool.name).0);
    let missing: Vec<String> =
        asked.iter().filter(|asked| !is_found(asked)).map(|name| in_comment(name, MAX_NAME)).take(MAX_FOUND).collect();
    let mut text = syntax.whole(&declared);
    if !missing.is_empty() {
        let _ = write!(text, "\nNot described, because at most {MAX_FOUND} are at once or there is no such tool: ");
        text.push_str(&missing.join(", "));
    }
    text
}

/// The tools that match words best, best first.
pub(super) fn search<'a>(tools: &'a [ToolDescription], query: &str) -> Vec<&'a ToolDescription> {
    let query = query.to_lowercase();
    let words: Vec<&str> = query.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let score = |tool: &ToolDescription| -> usize {
        let (name, description) = (tool.name.to_lowercase(), tool.description.to_lowercase());
        let of = |word: &&str| 3 * usize::from(name.contains(*word)) + usize::from(description.contains(*word));
        words.iter().take(MAX_FOUND).map(of).sum()
    };
    let mut found: Vec<(usize, &ToolDescription)> = tools.iter().map(|tool| (score(tool), tool)).collect();
    found.retain(|(score, _)| *score > 0);
    found.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    found.into_iter().take(MAX_FOUND).map(|(_, tool)| tool).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcell_types::Value;
    use serde_json::json;

    fn tool(name: &str, description: &str) -> ToolDescription {
        let parameters = json!({"type": "object", "properties": {
            "limit": {"type": "integer", "description": "The most results."}, "about": {"type": "string"}
        }, "required": ["about"], "additionalProperties": false});
        ToolDescription::new(name, description, parameters)
    }

    #[test]
    fn tools_are_declared_with_arguments_results_and_comments() {
        let found = json!({"type": "object", "properties": {"found": {"type": "integer"}}, "required": ["found"]});
        let find = tool("notes/find", "Finds notes. Twice.").with_results(Some(Value::from(found)));
        let nothing =
            ToolDescription::new("now", "Tells the time.", json!({"type": "object", "additionalProperties": false}));
        let Declarations { text, left_out } = declare(CodeMode::Javascript, &[find, nothing], MAX_BYTES);
        let expected = "declare const tools: {\n  /** `notes/find`: Finds notes. Twice. */\n  notes_find(args: { about: \
                        string; /** The most results. */ limit?: number }): Promise<{ found: number }>;\n  /** Tells the \
                        time. */\n  now(): Promise<unknown>;\n};";
        assert_eq!((text.as_str(), left_out), (expected, 0));
    }

    #[test]
    fn tools_are_declared_for_python_with_keyword_arguments() {
        let found = json!({"type": "object", "properties": {"found": {"type": "integer"}}, "required": ["found"]});
        let find = tool("notes/find", "Finds notes. \"\"\" Twice.").with_results(Some(Value::from(found)));
        let odd = json!({"type": "object", "properties": {"a-b": {"type": "string"}}, "required": ["a-b"]});
        let nothing = json!({"type": "object", "additionalProperties": false});
        let tools = [find, ToolDescription::new("import", "", odd), ToolDescription::new("1st", "First.", nothing)];
        let Declarations { text, left_out } = declare(CodeMode::Python, &tools, MAX_BYTES);
        let expected = "class tools:\n    async def notes_find(*, about: str, limit: int = ...) -> {\"found\": int}:\n        \
                        \"\"\"`notes/find`: Finds notes. ''' Twice.\n        limit: The most results.\"\"\"\n    async def \
                        import_(arguments: {\"a-b\": str}) -> Any:\n        \"\"\"`import`:\"\"\"\n    # \
                        tools[\"1st\"]() -> Any\n    #   First.";
        assert_eq!((text.as_str(), left_out), (expected, 0));
        let many: Vec<_> = (0..1_000).map(|at| tool(&format!("tool{at}"), "Does it.")).collect();
        let cut = declare(CodeMode::Python, &many, MAX_BYTES);
        assert!(cut.left_out > 0 && cut.text.contains("async def search_tools(*, query: str)"), "{}", cut.text);
    }

    #[test]
    fn names_are_written_as_the_runtime_finds_them() {
        let all = ["a/b", "a.b", "x/y", "x_y", "1st", "then", "delete", "ok"];
        let names = Names::new(Syntax::TypeScript, all.into_iter());
        let calls = all.map(|name| names.call(name));
        let expected = [
            "tools[\"a/b\"](args)",
            "tools[\"a.b\"](args)",
            "tools[\"x/y\"](args)",
            "tools.x_y(args)",
            "tools[\"1st\"](args)",
            "call(\"then\", args)",
            "tools.delete(args)",
            "tools.ok(args)",
        ];
        assert_eq!(calls, expected);
    }

    #[test]
    fn beyond_the_budget_details_go_first_and_then_tools_which_are_named() {
        let long = |at: usize| tool(&format!("tool{at}"), &format!("Does {at}. {}", "And so on. ".repeat(40)));
        let tools: Vec<_> = (0..100).map(long).collect();
        let full = declare(CodeMode::Javascript, &tools, 100_000);
        assert!(full.text.contains("And so on") && full.left_out == 0);
        let brief = declare(CodeMode::Javascript, &tools, 20_000);
        assert!(!brief.text.contains("And so on") && brief.text.contains("Does 99") && brief.left_out == 0);
        let bare = declare(CodeMode::Javascript, &tools, 7_500);
        assert!(!bare.text.contains("Does 99") && bare.text.contains("tool99(") && bare.left_out == 0, "{}", bare.text);
        let cut = declare(CodeMode::Javascript, &tools, 6_000);
        assert!(cut.left_out > 0 && cut.text.contains("tool99.") && cut.text.contains(SEARCH), "{}", cut.text);
        assert!(cut.text.len() < 7_000);
        assert_eq!(cut, declare(CodeMode::Javascript, &tools, 6_000));
    }

    #[test]
    fn left_out_tools_are_found_and_described() {
        let tools = [tool("mail.send", "Sends a mail."), tool("mail.list", "Lists mails."), tool("x", "Nothing.")];
        let found = |query| search(&tools, query).iter().map(|tool| tool.name.clone()).collect::<Vec<_>>();
        assert_eq!(found("SEND mail!"), ["mail.send", "mail.list"]);
        assert_eq!(found(""), Vec::<String>::new());
        let text = describe(CodeMode::Javascript, &tools, &["mail_send", "x", "y"]);
        assert!(text.contains("mail_send(args") && text.contains("x(args") && text.ends_with("tool: y"), "{text}");
    }

    /// Prints the figures of docs/how-to/code-mode.md: `cargo test -p opcell-session --lib declarations_of -- --nocapture`.
    #[test]
    fn declarations_of_many_tools_are_smaller_than_their_json() {
        let make = |at: usize| {
            let parameters = json!({"type": "object", "properties": {
                "path": {"type": "string", "description": "Path of the file, relative to the folder of the project."},
                "encoding": {"enum": ["utf-8", "latin-1"], "description": "The encoding of the text."},
                "lines": {"type": "array", "items": {"type": "object", "properties": {
                    "from": {"type": "integer", "minimum": 1}, "to": {"type": "integer", "minimum": 1}
                }, "required": ["from", "to"]}, "description": "Ranges of lines."}
            }, "required": ["path"], "additionalProperties": false});
            let about = "Reads lines of a text file. A path that leaves the folder is refused. Long files are cut.";
            ToolDescription::new(format!("files/read-{at}"), about, parameters)
        };
        println!("tools  JSON bytes  declarations  left out");
        for count in [10, 100, 1_000] {
            let tools: Vec<_> = (0..count).map(make).collect();
            let json: usize = tools.iter().map(|tool| serde_json::to_string(tool).unwrap().len()).sum();
            let declared = declare(CodeMode::Javascript, &tools, MAX_BYTES);
            println!("{count:>5}  {json:>10}  {:>12}  {:>8}", declared.text.len(), declared.left_out);
            assert!(declared.text.len() < json && declared.text.len() < MAX_BYTES + 1_000);
        }
    }
}
