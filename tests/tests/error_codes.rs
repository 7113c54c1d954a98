//! `docs/errors.md` and `opcell explain` have every code that the program can give, with its messages and its remedies:
//! read from the source, so that none is left out, and from `remedies.toml` where the source has no remedy.
//! `SNAPSHOTS=overwrite cargo test -p opcell-tests --test error_codes` writes both.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test")]

use regex::Regex;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

/// The codes of one kind, each with the texts that it comes with.
type Codes = BTreeMap<String, BTreeSet<String>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// A file of the host.
struct Source {
    /// The folder of its crate.
    krate: String,
    text: String,
}

/// The sources of the host, without their tests.
fn sources() -> Vec<Source> {
    const OF_TESTS: [&str; 5] = ["tests.rs", "testing.rs", "test_server.rs", "provider_support.rs", "odd.rs"];
    let host = root().join("host");
    let (mut open, mut found) = (vec![host.clone()], Vec::new());
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
            // A link leads to the SDKs, whose failures are plugins'.
            if path.is_symlink() {
                continue;
            }
            if path.is_dir() && !["tests", "examples", "templates", "target"].contains(&name.as_str()) {
                open.push(path);
            } else if name.ends_with(".rs") && !name.ends_with("_tests.rs") && !OF_TESTS.contains(&name.as_str()) {
                let text = fs::read_to_string(&path).unwrap();
                let text = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap();
                // Examples of the documentation give codes of their own.
                let is_code = |line: &&str| !line.trim_start().starts_with("//");
                let text = text.lines().filter(is_code).map(|line| format!("{line}\n")).collect();
                let krate = path.strip_prefix(&host).unwrap().iter().next().unwrap().to_str().unwrap().to_owned();
                found.push(Source { krate, text });
            }
        }
    }
    found.sort_by(|a, b| (&a.krate, &a.text).cmp(&(&b.krate, &b.text)));
    found
}

/// A literal of the source as people read it.
fn said(literal: &str) -> String {
    static CONTINUED: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\\\n\s*").unwrap());
    let joined = CONTINUED.replace_all(literal, "").replace("\\\"", "\"").replace("\\n", " ");
    joined.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The command line's words for the follow-ups that texts put in by these names.
const FOLLOW_UPS: &[(&str, &str)] = &[
    ("{show_run}", "`opcell runs show …`"),
    ("{list_runs}", "`opcell runs list`"),
    ("{export_run}", "`opcell runs export …`"),
    ("{adopt_run}", "`opcell runs adopt …`"),
    ("{diff_plugin}", "`opcell plugin diff …`"),
    ("{accept_plugin}", "`opcell plugin update …`"),
    ("{fetch_plugin}", "`opcell plugin fetch …`"),
    ("{name_project}", "`--config …`"),
    ("{name_journal}", "`--journal=PATH`"),
    ("{name_component}", "name its component: `--plugin FILE.wasm`"),
    ("{choose_prompt}", "`--prompt …`"),
    ("{frozen}", "this command runs `--locked`"),
];

/// A literal of `format!` as people read it, what is put in as `…`.
fn filled(literal: &str) -> String {
    static PUT_IN: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\{[^{}]*\}").unwrap());
    static SEVERAL: LazyLock<Regex> = LazyLock::new(|| Regex::new("…{2,}").unwrap());
    let literal = FOLLOW_UPS.iter().fold(said(literal), |literal, (name, words)| literal.replace(name, words));
    let filled = PUT_IN.replace_all(&literal, "…").replace("{{", "{").replace("}}", "}");
    SEVERAL.replace_all(&filled, "…").into_owned()
}

/// The parts of `text`, which follows an opening bracket or a `=`, that `separator` separates: up to the bracket
/// that closes it, or to a `;`.
fn parts(text: &str, separator: char) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0_usize);
    let mut rest = text.char_indices().peekable();
    while let Some((at, c)) = rest.next() {
        match c {
            '"' => {
                while let Some((_, c)) = rest.next().filter(|(_, c)| *c != '"') {
                    if c == '\\' {
                        rest.next();
                    }
                }
            }
            // A letter, not a lifetime.
            '\'' => {
                let letter = text[at + 1..].chars().next();
                let length = letter.map_or(0, char::len_utf8);
                if letter == Some('\\') || text[at + 1 + length..].starts_with('\'') {
                    rest.next();
                    while rest.next_if(|(_, c)| *c != '\'').is_some() {}
                    rest.next();
                }
            }
            '/' if text[at..].starts_with("//") => while rest.next_if(|(_, c)| *c != '\n').is_some() {},
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth > 0 => depth -= 1,
            ')' | ']' | '}' | ';' if depth == 0 => {
                parts.push(text[start..at].trim());
                return parts;
            }
            _ if c == separator && depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts
}

/// The places that a code may be given from.
enum Scope {
    Everywhere,
    Crate(String),
    /// One of the sources.
    File(usize),
}

/// A function, method or closure that takes a code.
struct Giver {
    scope: Scope,
    /// The source that has it.
    file: usize,
    /// `.` before a method, and the type of an associated function.
    before: String,
    kind: usize,
    /// The positions of the arguments.
    code: usize,
    message: Option<usize>,
    help: Option<usize>,
}

impl Giver {
    /// `true` if it can be called in the source at a position.
    fn reaches(&self, at: usize, source: &Source) -> bool {
        match &self.scope {
            Scope::Everywhere => true,
            Scope::Crate(krate) => *krate == source.krate,
            Scope::File(file) => *file == at,
        }
    }
}

/// The kind of a code: of a parameter or variable that is named `code` or `reason`.
fn kind_of(name: &str, source: &Source) -> usize {
    match name {
        "reason" => FAILURE,
        _ if source.krate == "server" => PROBLEM,
        _ => FINDING,
    }
}

const MESSAGE: [&str; 4] = ["message", "detail", "said", "text"];

/// Everything that takes a code, by its name: parameters that are texts are named `code` or `reason` there.
fn givers(sources: &[Source]) -> BTreeMap<String, Vec<Giver>> {
    let function = Regex::new(r"\bfn (\w+)(?:<[^>(]*>)?\(").unwrap();
    let closure = Regex::new(r"\blet (?:mut )?(\w+) =\s+(?:move )?\|([^|]+)\|").unwrap();
    let of_type = Regex::new(r"\n( *)impl(?:<[^\n]*>)? (?:[^\n{]* for )?(\w+)[^\n]*\{\n").unwrap();
    let mut found: BTreeMap<String, Vec<Giver>> = BTreeMap::new();
    let mut add = |name: &str, params: &[&str], at: usize, scope: Scope, before: String| {
        let params: Vec<_> = params.iter().map(|param| param.split_once(':').unwrap_or((param, "&str"))).collect();
        let of = |names: &[&str]| params.iter().position(|(param, _)| names.contains(&param.trim()));
        let Some(code) =
            of(&["code", "reason"]).filter(|code| ["str", "Into<"].iter().any(|is| params[*code].1.contains(is)))
        else {
            return;
        };
        let kind = kind_of(params[code].0.trim(), &sources[at]);
        let giver = Giver { scope, file: at, before, kind, code, message: of(&MESSAGE), help: of(&["help"]) };
        found.entry(name.to_owned()).or_default().push(giver);
    };
    for (at, source) in sources.iter().enumerate() {
        let types: Vec<_> = of_type.captures_iter(&source.text).collect();
        for one in function.captures_iter(&source.text) {
            let start = one.get(0).unwrap();
            let mut params = parts(&source.text[start.end()..], ',');
            let own = types.iter().rfind(|own| own.get(0).unwrap().end() <= start.start());
            let own = own.filter(|own| {
                !source.text[own.get(0).unwrap().end()..start.start()].contains(&format!("\n{}}}\n", &own[1]))
            });
            let in_crate = || Scope::Crate(source.krate.clone());
            match own {
                _ if params.first().is_some_and(|first| first.ends_with("self")) => {
                    params.remove(0);
                    add(&one[1], &params, at, in_crate(), ".".to_owned());
                }
                Some(own) => {
                    add(&one[1], &params, at, Scope::Everywhere, own[2].to_owned());
                    add(&one[1], &params, at, Scope::File(at), "Self".to_owned());
                }
                None => add(&one[1], &params, at, in_crate(), String::new()),
            }
        }
        for one in closure.captures_iter(&source.text) {
            let params: Vec<_> = one[2].split(',').map(str::trim).collect();
            add(&one[1], &params, at, Scope::File(at), String::new());
        }
    }
    found
}

/// Constants that are texts.
struct Constants(BTreeMap<String, Vec<(String, String)>>);

impl Constants {
    fn of(sources: &[Source]) -> Self {
        let constant = Regex::new(r#"const ([A-Z_]+): &(?:'static )?str =\s*"((?:[^"\\]|\\[\s\S])*)";"#).unwrap();
        let mut found: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
        for source in sources {
            for one in constant.captures_iter(&source.text) {
                found.entry(one[1].to_owned()).or_default().push((source.krate.clone(), one[2].to_owned()));
            }
        }
        Self(found)
    }

    /// The text of `checks::UNKNOWN_OPERATION`, of the own crate first.
    fn get(&self, name: &str, krate: &str) -> Option<&str> {
        let all = self.0.get(name.rsplit("::").next().unwrap())?;
        all.iter().find(|(of, _)| of == krate).or(all.first()).map(|(_, text)| text.as_str())
    }
}

/// Every code that is given, by its kind, and the helps.
#[derive(Default)]
struct Given {
    codes: [Codes; 4],
    helps: Codes,
}

impl Given {
    fn add(&mut self, kind: usize, code: &str, messages: Vec<String>, helps: Vec<String>) {
        self.codes[kind].entry(code.to_owned()).or_default().extend(messages);
        self.helps.entry(code.to_owned()).or_default().extend(helps);
    }
}

fn is_code(text: &str) -> bool {
    text.len() > 1 && text.starts_with(|c: char| c.is_ascii_lowercase()) && text.chars().all(is_of_code)
}

fn is_of_code(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'
}

/// The texts that an expression may be: a literal, what a name was given, or one of several.
fn texts(expression: &str, before: &str, source: &Source, constants: &Constants) -> Vec<String> {
    static TEXT: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#"^(?:Some\()?&?(?:(?:format!\(\s*)?"|(?:if|match) )"#).unwrap());
    static NAME: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^(?:Some\()?&?((?:\w+::)*\w+)").unwrap());
    if TEXT.is_match(expression) {
        return one_of(expression);
    }
    let Some(name) = NAME.captures(expression) else { return Vec::new() };
    match constants.get(&name[1], &source.krate) {
        Some(text) => vec![said(text)],
        None => named(before, &name[1]),
    }
}

/// The texts that are the ends of an expression: one, or those of its branches.
fn one_of(expression: &str) -> Vec<String> {
    static TEXT: LazyLock<Regex> = LazyLock::new(|| {
        let before = r"(?:=> |else \{\s*|if [^\{]*\{\s*|^(?:Some\()?&?|format!\(\s*)(?:format!\(\s*)?";
        Regex::new(&format!(r#"({before})"((?:[^"\\]|\\[\s\S])*)""#)).unwrap()
    });
    let literals = TEXT
        .captures_iter(expression)
        .map(|one| if one[1].contains("format!") { filled(&one[2]) } else { said(&one[2]) });
    let start = expression.trim_start_matches("Some(").trim_start_matches('&');
    let is_one = start.starts_with('"') || start.starts_with("format!");
    literals.take(if is_one { 1 } else { usize::MAX }).collect()
}

/// The text that a name was given last: `let name = "…"`, `let name = format!("…")`, or one of several.
fn named(before: &str, name: &str) -> Vec<String> {
    static FUNCTION: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\n *(?:pub(?:\([a-z]+\))? )?(?:async )?fn ").unwrap());
    // In the same function.
    let start = FUNCTION.find_iter(before).last();
    let before = &before[start.map_or(0, |start| start.end())..];
    let Some((_, given)) = before.rsplit_once(&format!("let {name} =")) else { return Vec::new() };
    parts(given, ';').first().map(|given| one_of(given)).unwrap_or_default()
}

/// Calls of everything that takes a code.
fn of_calls(sources: &[Source], constants: &Constants, given: &mut Given) {
    let givers = givers(sources);
    let names: Vec<&str> = givers.keys().map(String::as_str).collect();
    let call = Regex::new(&format!(r"(?:(\w+)::|(\.))?\b({})\(", names.join("|"))).unwrap();
    let end = Regex::new(r"\n    \}\n|\n\}\n").unwrap();
    for (at, source) in sources.iter().enumerate() {
        let mut found = Vec::new();
        for one in call.captures_iter(&source.text) {
            let (start, open) = (one.get(0).unwrap().start(), one.get(0).unwrap().end());
            let arguments = parts(&source.text[open..], ',');
            let before = match (one.get(1), one.get(2)) {
                (Some(of), _) if of.as_str().starts_with(|c: char| c.is_uppercase()) => of.as_str(),
                // Not `..failure(…)`, the rest of a struct.
                (_, Some(dot)) if !source.text[..dot.start()].ends_with('.') => ".",
                _ => "",
            };
            // A function of the same name in the same file takes no code, unless it is a giver.
            let is_own = |(at, name): (usize, &str)| {
                let params = parts(&source.text[at + name.len()..], ',');
                !params.first().is_some_and(|first| first.ends_with("self"))
            };
            let is_other = || before.is_empty() && source.text.match_indices(&format!("fn {}(", &one[3])).any(is_own);
            let mut possible: Vec<&Giver> = givers[&one[3]]
                .iter()
                .filter(|giver| giver.before == before && giver.reaches(at, source))
                .filter(|giver| giver.file == at || !is_other())
                .collect();
            // Of several methods of one name, the file's own; otherwise any, since only literals are texts.
            if possible.iter().any(|giver| giver.file == at) {
                possible.retain(|giver| giver.file == at);
            }
            let Some(giver) = possible.first() else { continue };
            let Some(code) = arguments.get(giver.code) else { continue };
            let literals = match code.strip_prefix('"').and_then(|code| code.split('"').next()) {
                Some(literal) => vec![literal.to_owned()],
                None => match constants.get(code, &source.krate) {
                    Some(text) => vec![text.to_owned()],
                    None if code.starts_with("if ") || code.starts_with("match ") => one_of(code),
                    None => continue,
                },
            };
            let of = |position: fn(&Giver) -> Option<usize>| -> Vec<String> {
                let arguments = possible.iter().filter_map(|giver| arguments.get(position(giver)?));
                arguments.flat_map(|argument| texts(argument, &source.text[..start], source, constants)).collect()
            };
            let (messages, helps) = (of(|giver| giver.message), of(|giver| giver.help));
            found.push((start, open, giver.kind, literals, messages, helps));
        }
        for (index, (_, open, kind, codes, messages, mut helps)) in found.clone().into_iter().enumerate() {
            let after = &source.text[open..];
            let stop = end.find(after).map_or(after.len(), |end| end.start());
            let stop = found.get(index + 1).map_or(stop, |next| stop.min(next.0.saturating_sub(open)));
            for (help, name) in after[..stop].match_indices(".help(") {
                let at = open + help + name.len();
                if let Some(first) = parts(&source.text[at..], ',').first() {
                    helps.extend(texts(first, &source.text[..at], source, constants));
                }
            }
            for code in codes.iter().filter(|code| is_code(code)) {
                given.add(kind, code, messages.clone(), helps.clone());
            }
        }
    }
}

/// Variables and fields that are named `code` or `reason`, and what they are given.
fn of_names(sources: &[Source], constants: &Constants, given: &mut Given) {
    let variable = Regex::new(r"[\s(](code|reason)(?:, (?:mut )?(\w+))?\)? =\s").unwrap();
    let before = r"(?:=>\s*(?:\{\s*)?|[^\w]\{\s*|\|\|\s*|or\(|^)\(?\s*";
    let behind = r#"(?:,\s*((?:format!\(\s*)?"(?:[^"\\]|\\[\s\S])*")|\s*(=>|\|))?"#;
    let value = Regex::new(&format!(r#"{before}"([a-z][a-z0-9-]+)"{behind}"#)).unwrap();
    let function = Regex::new(r"-> (?:Option<)?\(&'static str, bool\)>? \{").unwrap();
    let field = Regex::new(r#"\b(code|reason): "([a-z][a-z0-9-]+)"(?:\.\w+\(\))?,"#).unwrap();
    for source in sources {
        for one in variable.captures_iter(&source.text) {
            let values = parts(&source.text[one.get(0).unwrap().end()..], ';');
            for value in values.first().into_iter().flat_map(|values| value.captures_iter(values)) {
                // A pattern.
                if value.get(3).is_some() {
                    continue;
                }
                let beside: Vec<String> = value.get(2).map(|text| one_of(text.as_str())).unwrap_or_default();
                let (messages, helps) = match one.get(2).map(|name| name.as_str()) {
                    Some("help") => (Vec::new(), beside),
                    Some(name) if MESSAGE.contains(&name) => (beside, Vec::new()),
                    _ => (Vec::new(), Vec::new()),
                };
                given.add(kind_of(&one[1], source), &value[1], messages, helps);
            }
        }
        // A reason, and `true` if the request may be repeated.
        for one in function.find_iter(&source.text) {
            let body = parts(&source.text[one.end()..], '\0').join("");
            for value in value.captures_iter(&body).filter(|value| value.get(3).is_none()) {
                given.add(FAILURE, &value[1], Vec::new(), Vec::new());
            }
        }
        for one in field.captures_iter(&source.text) {
            let place = one.get(0).unwrap();
            let fields = parts(&source.text[place.end()..], ',');
            let message = fields.iter().find_map(|field| field.strip_prefix("message: "));
            let messages = message.map(|message| texts(message, &source.text[..place.start()], source, constants));
            given.add(kind_of(&one[1], source), &one[2], messages.unwrap_or_default(), Vec::new());
        }
    }
}

/// Errors that name their own kind: what `kind` gives for each variant, with the text above the variant.
fn of_kinds(sources: &[Source]) -> Codes {
    let kind = Regex::new(
        r#"Self::(\w+)(?:\s*\{[^}]*\}|\s*\([^)]*\))?(?:\s*\|\s*Self::\w+[^=]*)?(?:\s+if\s[^>\n]*)?\s*=>\s*"([a-z][a-z0-9-]+)""#,
    )
    .unwrap();
    let text = Regex::new(r##"#\[error\(\s*"((?:[^"\\]|\\[\s\S])*)"[\s\S]*?\]\s*\n\s*(\w+)\s*[\{\(,]"##).unwrap();
    let mut found = Codes::new();
    for source in sources.iter().map(|source| &source.text).filter(|text| text.contains("#[error(")) {
        let texts: BTreeMap<&str, String> =
            text.captures_iter(source).map(|found| (found.get(2).unwrap().as_str(), filled(&found[1]))).collect();
        for part in source.split("fn kind(&self) -> &'static str").skip(1) {
            let body = part.split("\n    }\n").next().unwrap();
            for one in kind.captures_iter(body) {
                found.entry(one[2].to_owned()).or_default().extend(texts.get(&one[1]).cloned());
            }
        }
    }
    found
}

/// The reasons that an error's `reason` gives for its variants.
fn of_reasons(sources: &[Source]) -> Vec<String> {
    let reason = Regex::new(r#"Self::\w+[^=]*=>\s*"([a-z][a-z0-9-]+)""#).unwrap();
    let bodies = sources.iter().flat_map(|source| source.text.split("fn reason(&self) -> &'static str").skip(1));
    let bodies = bodies.map(|part| part.split("\n    }\n").next().unwrap());
    bodies.flat_map(|body| reason.captures_iter(body)).map(|found| found[1].to_owned()).collect()
}

/// Codes that the finder must have: those that the examples of `tests/cli` expect, and the first arguments of what its
/// name shows to be a giver.
fn expected(sources: &[Source]) -> BTreeSet<String> {
    let shown = Regex::new(r#"(?m)^([a-z][a-z0-9-]+)\n\n  [x!] |"code": ?"([a-z][a-z0-9-]+)""#).unwrap();
    let names = "error|warning|warn|failure|failed|finding|problem|refused|reported|report|wrong";
    let given =
        Regex::new(&format!(r#"\b(?:{names})\(\s*(?:\w+::\w+,\s*)?"([a-z][a-z0-9]*(?:-[a-z0-9]+)+)""#)).unwrap();
    let (mut texts, examples) = (Vec::new(), root().join("tests/cli"));
    for example in fs::read_dir(examples).unwrap().map(Result::unwrap) {
        texts
            .extend(["stdout", "stderr"].map(|name| fs::read_to_string(example.path().join(name)).unwrap_or_default()));
    }
    let shown = texts.iter().flat_map(|text| shown.captures_iter(text));
    let given = sources.iter().flat_map(|source| given.captures_iter(&source.text));
    let found: BTreeSet<String> =
        shown.chain(given).map(|one| one.iter().skip(1).flatten().next().unwrap().as_str().to_owned()).collect();
    assert!(found.len() > 200, "the examples and the sources have other words: {found:?}");
    found
}

/// One code of the page, as `opcell explain` reads it.
#[derive(serde::Serialize, Default)]
struct Code {
    code: String,
    kinds: Vec<&'static str>,
    meaning: Option<String>,
    messages: Vec<String>,
    remedies: Vec<String>,
}

/// `remedies.toml`: what the source does not say.
#[derive(serde::Deserialize)]
struct Written {
    meaning: BTreeMap<String, String>,
    remedy: BTreeMap<String, String>,
}

/// `true` unless only its variable parts say something.
fn says_something(text: &str) -> bool {
    text.split(|c: char| !c.is_alphabetic()).any(|word| word.len() > 3)
}

/// Every code once, in the order of the alphabet, whatever kinds of errors have it.
fn merged(kinds: [Codes; 4], helps: &Codes, written: &Written) -> Vec<Code> {
    let mut merged: BTreeMap<String, Code> = BTreeMap::new();
    for ((kind, _), codes) in KINDS.into_iter().zip(kinds) {
        for (name, texts) in codes {
            let code = merged.entry(name).or_default();
            code.kinds.push(kind);
            let is_new = |text: &String| says_something(text) && !code.messages.contains(text);
            let texts: Vec<String> = texts.into_iter().filter(is_new).collect();
            code.messages.extend(texts);
        }
    }
    for (name, code) in &mut merged {
        code.code.clone_from(name);
        code.meaning = written.meaning.get(name).cloned();
        code.remedies.extend(written.remedy.get(name).cloned());
        code.remedies
            .extend(helps.get(name).into_iter().flatten().filter(|help| help.contains(char::is_alphabetic)).cloned());
    }
    merged.into_values().collect()
}

fn page(codes: &[Code]) -> String {
    let mut page = "# Error codes\n\nEvery code that Opcell gives: the messages that it comes with (`…` marks the variable part) and what to do. `opcell\nexplain CODE` prints the same. Codes never change their meaning. This page is made from the source, and a test fails\nwhen it is not complete.\n\n| kind | where you meet the code |\n| --- | --- |\n".to_owned();
    for (kind, about) in KINDS {
        let _ = writeln!(page, "| {kind} | {about} |");
    }
    for code in codes {
        let _ = write!(page, "\n## {}\n\n*{}.*", code.code, code.kinds.join(", "));
        if let Some(meaning) = &code.meaning {
            let mut letters = meaning.chars();
            let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
            let _ = write!(page, " {first}{}.", letters.as_str());
        }
        page.push('\n');
        if !code.messages.is_empty() {
            page.push_str("\nSays:\n\n");
            for message in &code.messages {
                let _ = writeln!(page, "- {}", escaped(message));
            }
        }
        page.push_str("\nRemedy:\n\n");
        for remedy in &code.remedies {
            let _ = writeln!(page, "- {}", escaped(remedy));
        }
    }
    page
}

/// A text as Markdown: what is in backticks stays, and nothing else is markup.
fn escaped(text: &str) -> String {
    let mut quoted = false;
    let mut escaped = String::new();
    for c in text.chars() {
        quoted ^= c == '`';
        if !quoted && matches!(c, '*' | '_' | '<' | '[' | '{') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// The places of the kinds in [`KINDS`].
const FINDING: usize = 0;
const FAILURE: usize = 1;
const CELL: usize = 2;
const PROBLEM: usize = 3;

const KINDS: [(&str, &str); 4] = [
    (
        "finding",
        "of documents, project files and commands: errors end with exit code 2, warnings with `--strict` only; `code` in `--json`",
    ),
    (
        "failure of a call or run",
        "`reason` of a failure whose `source` is `host`; `:on-error`, routes and callers see it",
    ),
    (
        "cell, plugin or journal",
        "`error` in a cell's receipt, the code of a plugin that is not loaded, and of a run that cannot continue",
    ),
    ("problem of the server", "`code` of an RFC 9457 problem; findings and failures come under their own codes"),
];

#[test]
fn the_page_of_error_codes_has_all_of_them() {
    let sources = sources();
    let constants = Constants::of(&sources);
    let mut given = Given::default();
    of_calls(&sources, &constants, &mut given);
    of_names(&sources, &constants, &mut given);
    for code in of_reasons(&sources) {
        given.add(FAILURE, &code, Vec::new(), Vec::new());
    }
    for (code, texts) in of_kinds(&sources) {
        given.add(CELL, &code, texts.into_iter().collect(), Vec::new());
    }
    let least = [200, 60, 60, 40];
    assert!(given.codes.iter().zip(least).all(|(codes, least)| codes.len() > least), "the finder finds too little");
    let written: Written =
        toml_edit::de::from_str(&fs::read_to_string(root().join("host/cli/src/cli/explain/remedies.toml")).unwrap())
            .unwrap();
    let all = merged(given.codes, &given.helps, &written);
    let has = |code: &str| all.iter().any(|known| known.code == code);
    let of_no_code: Vec<&String> =
        written.meaning.keys().chain(written.remedy.keys()).filter(|code| !has(code)).collect();
    assert_eq!(of_no_code, Vec::<&String>::new(), "remedies.toml explains what no source gives");
    let without =
        |lacks: fn(&Code) -> bool| all.iter().filter(|code| lacks(code)).map(|code| &code.code).collect::<Vec<_>>();
    // A hint that there may be.
    let lacks_remedy = |code: &Code| code.remedies.iter().all(|remedy| remedy.starts_with("did you mean"));
    assert_eq!(without(lacks_remedy), Vec::<&String>::new(), "remedies.toml has no remedy");
    let missed: BTreeSet<String> = expected(&sources).into_iter().filter(|code| !has(code)).collect();
    assert_eq!(missed, BTreeSet::new(), "the finder misses codes");
    let silent = without(|code| code.messages.is_empty() && code.meaning.is_none());
    assert_eq!(silent, Vec::<&String>::new(), "remedies.toml has no meaning");
    let stale = "SNAPSHOTS=overwrite cargo test -p opcell-tests --test error_codes";
    let codes = format!("{}\n", serde_json::to_string_pretty(&all).unwrap());
    for (name, made) in [("docs/errors.md", page(&all)), ("host/cli/src/cli/explain/codes.json", codes)] {
        let path = root().join(name);
        if std::env::var("SNAPSHOTS").is_ok_and(|value| value == "overwrite") {
            fs::write(&path, &made).unwrap();
        }
        assert!(fs::read_to_string(&path).unwrap_or_default() == made, "`{stale}` writes {name}");
    }
}
