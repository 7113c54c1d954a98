//! A page as a reader follows it, from top to bottom.
//!
//! | a block | what happens |
//! | --- | --- |
//! | any with `file=NAME` after its language | the file is written into the page's folder |
//! | `console` that begins with `$ cd examples/NAME` | runs in a copy of that example |
//! | any other `console` | runs in the page's folder |
//!
//! A reader has one terminal: `cd` counts until the end of the page, and for an example until the end of its block.
//! What follows `$ ` is typed into a shell, what follows `> ` is typed into the command. Every other line is what a
//! terminal shows, results and messages in the order in which they come: a line `…` stands for any lines, `…` in a line
//! for any text, and blank lines do not count. A command without a line shows nothing of what it prints.
//! `SNAPSHOTS=overwrite` puts the lines in order and a `…` into each gap.
//!
//! A command ends with 0, with 1 if the page shows that the run failed, or with 3 if it shows that it is suspended; a
//! page that shows another exit code asks for it: `$ echo $?`.

use super::root;
use regex::Regex;
use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

/// A fenced block.
pub struct Block {
    /// The info string after the backticks.
    pub info: String,
    /// The text between the fences.
    pub text: String,
}

impl Block {
    /// The language, without what follows it.
    pub fn language(&self) -> &str {
        self.info.split_whitespace().next().unwrap_or_default()
    }

    /// The file that the block is.
    pub fn file(&self) -> Option<&str> {
        self.info.split_whitespace().find_map(|word| word.strip_prefix("file="))
    }

    /// The example that its commands are about.
    fn example(&self) -> Option<&str> {
        self.text.strip_prefix("$ cd examples/")?.lines().next()
    }
}

/// The fenced blocks of a text, in order. A fence is closed by one that is as long.
pub fn blocks(text: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let fence: String = line.trim_start().chars().take_while(|c| *c == '`').collect();
        if fence.len() < 3 {
            continue;
        }
        let info = line.trim_start().trim_start_matches('`').to_owned();
        let inside: Vec<&str> = lines.by_ref().take_while(|line| line.trim() != fence).collect();
        let mut text = inside.join("\n");
        if !inside.is_empty() {
            text.push('\n');
        }
        found.push(Block { info, text });
    }
    found
}

/// A text without its fenced blocks and its code in backticks.
pub fn without_blocks(text: &str) -> String {
    let mut kept = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let fence: String = line.trim_start().chars().take_while(|c| *c == '`').collect();
        if fence.len() < 3 {
            kept.push_str(line);
            kept.push('\n');
        } else {
            lines.by_ref().take_while(|line| line.trim() != fence).for_each(drop);
        }
    }
    kept
}

/// The anchors of the headings of a page, as mdBook and GitHub make them, and those that it writes itself.
pub fn anchors(text: &str) -> Vec<String> {
    let text = without_blocks(text);
    let mut anchors: Vec<String> = Vec::new();
    let link = Regex::new(r"\[([^\]]*)\]\([^)]*\)").unwrap();
    for line in text.lines().filter(|line| line.starts_with('#')) {
        let title = link.replace_all(line.trim_start_matches('#').trim(), "$1").to_lowercase();
        let kept: String = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_')).collect();
        let anchor = kept.replace(' ', "-");
        let again = anchors.iter().filter(|known| **known == anchor).count();
        anchors.push(anchor.clone());
        if again > 0 {
            anchors.push(format!("{anchor}-{again}"));
        }
    }
    let own = Regex::new(r#"<a id="([^"]+)""#).unwrap();
    anchors.extend(own.captures_iter(&text).map(|anchor| anchor[1].to_owned()));
    anchors
}

/// The result of following a page.
#[derive(Default)]
pub struct Followed {
    /// The commands that were run.
    pub ran: usize,
    /// The differences from the page.
    pub problems: Vec<String>,
    /// Parts of the page as they are, and as they should be.
    corrections: Vec<(String, String)>,
}

/// Follows a page to its end.
pub fn follow(page: &Path) -> Followed {
    let (here, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut followed = Followed::default();
    let text = fs::read_to_string(page).unwrap();
    let mut terminal = here.path().to_owned();
    for block in blocks(&text) {
        if let Some(name) = block.file() {
            write(&here.path().join(name), &block.text);
        } else if block.language() == "console" {
            match block.example() {
                Some(example) => {
                    let copy = tempfile::tempdir().unwrap();
                    super::copy(&root().join("examples").join(example), copy.path());
                    followed.run_block(&block.text, 2, &mut copy.path().to_owned(), home.path());
                }
                None => followed.run_block(&block.text, 1, &mut terminal, home.path()),
            }
        }
    }
    if std::env::var("SNAPSHOTS").is_ok_and(|how| how == "overwrite") && !followed.corrections.is_empty() {
        fs::write(page, corrected(&text, &followed.corrections)).unwrap();
    }
    let name = page.file_name().unwrap().to_str().unwrap();
    followed.problems.iter_mut().for_each(|problem| problem.insert_str(0, &format!("{name}: ")));
    followed
}

/// The text with each part replaced, in the order in which they come.
fn corrected(text: &str, corrections: &[(String, String)]) -> String {
    let (mut done, mut rest) = (String::new(), text);
    for (is, should_be) in corrections {
        if let Some((before, after)) = rest.split_once(is.as_str()) {
            done += before;
            done += should_be;
            rest = after;
        }
    }
    done + rest
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    components(text, r#""(plugins/)([a-z-]+\.wasm)""#, path.parent().unwrap());
}

/// Components lie where `cargo xtask guests` puts them; a page names one as if it had been handed to the reader.
fn components(text: &str, named: &str, folder: &Path) {
    for named in Regex::new(named).unwrap().captures_iter(text) {
        let built = root().join("example-operations/dist").join(&named[2]);
        assert!(built.is_file(), "`cargo xtask guests` builds {}", built.display());
        let place = folder.join(&named[1]);
        fs::create_dir_all(&place).unwrap();
        fs::copy(built, place.join(&named[2])).unwrap();
    }
}

impl Followed {
    /// Runs the commands of a block after the first `skipped` parts between prompts.
    fn run_block(&mut self, block: &str, skipped: usize, folder: &mut PathBuf, home: &Path) {
        components(block, r"\.\./()([a-z-]+\.wasm)", folder);
        let prompts = Regex::new(r"(?m)^\$ ").unwrap();
        let commands: Vec<&str> = prompts.split(block).skip(skipped).collect();
        let mut last = None;
        for (at, shown) in commands.iter().enumerate() {
            let (command, rest) = shown.split_once('\n').unwrap();
            if command == "echo $?" {
                if last != rest.trim().parse().ok() {
                    self.problems.push(format!("exit code {last:?} and not {rest}"));
                }
                continue;
            }
            let asks = commands.get(at + 1).is_some_and(|next| next.starts_with("echo $?"));
            let output = run(command, rest, folder, home);
            last = output.status.code();
            self.ran += 1;
            self.compare(command, rest, asks, &output);
        }
    }

    /// Compares what a command printed with the lines that the page shows after it.
    fn compare(&mut self, command: &str, rest: &str, any_code: bool, output: &Output) {
        let printed = String::from_utf8_lossy(&output.stdout);
        let typed: Vec<&str> = rest.lines().filter(|line| line.starts_with("> ")).collect();
        let shown: Vec<&str> = rest.lines().filter(|line| !line.starts_with("> ") && !line.is_empty()).collect();
        let lines: Vec<&str> = printed.lines().filter(|line| !line.is_empty()).collect();
        if !shown.is_empty() && !is_shown(&shown, &lines) {
            match in_order(&shown, &lines) {
                Ok(ordered) => {
                    let lines = |lines: &[&str]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
                    let end = if rest.ends_with("\n\n") { "\n" } else { "" };
                    let should_be = format!("$ {command}\n{}{}{end}", lines(&typed), lines(&ordered));
                    self.corrections.push((format!("$ {command}\n{rest}"), should_be));
                    self.problems.push(format!(
                        "`{command}` prints this in another order, or with lines between that the page does not mark with `…`:\n{printed}"
                    ));
                }
                Err(line) => self.problems.push(format!("`{command}` does not print {line:?}:\n{printed}")),
            }
            return;
        }
        let has = |start: &str| shown.iter().any(|line| line.starts_with(start));
        let expected = match () {
            () if has("suspended at step") => 3,
            () if has("failed: ") => 1,
            () => 0,
        };
        if !any_code && output.status.code() != Some(expected) {
            self.problems.push(format!("`{command}` ends with {:?}:\n{printed}", output.status.code()));
        }
    }
}

/// Returns `true` if the lines that are shown are all that was printed, but for the gaps that they mark.
fn is_shown(shown: &[&str], printed: &[&str]) -> bool {
    // The numbers of printed lines that a beginning of `shown` may stand for.
    let mut ends = vec![0];
    for line in shown {
        ends = match *line {
            "…" => ends.first().map(|first| (*first..=printed.len()).collect()).unwrap_or_default(),
            line => {
                let follows = |end: &usize| printed.get(*end).is_some_and(|printed| matches(line, printed));
                ends.into_iter().filter(follows).map(|end| end + 1).collect()
            }
        };
    }
    ends.contains(&printed.len())
}

/// The lines that are shown in the order in which they were printed, with `…` in each gap; or a line that was not
/// printed.
fn in_order<'a>(shown: &[&'a str], printed: &[&str]) -> Result<Vec<&'a str>, &'a str> {
    let mut places: Vec<(usize, &str)> = Vec::new();
    for line in shown.iter().filter(|line| **line != "…") {
        let is_free = |at: &usize| !places.iter().any(|(taken, _)| taken == at);
        let last = places.last().map_or(0, |(last, _)| last + 1);
        let found = |from: usize| (from..printed.len()).find(|at| is_free(at) && matches(line, printed[*at]));
        places.push((found(last).or_else(|| found(0)).ok_or(*line)?, line));
    }
    places.sort_unstable();
    let (mut ordered, mut next) = (Vec::new(), 0);
    for (at, line) in places {
        if at > next {
            ordered.push("…");
        }
        ordered.push(line);
        next = at + 1;
    }
    if next < printed.len() {
        ordered.push("…");
    }
    Ok(ordered)
}

/// Runs a command, and types what the page types. The folder is that in which the next command of the block runs.
fn run(command: &str, rest: &str, folder: &mut PathBuf, home: &Path) -> Output {
    let at_end = tempfile::NamedTempFile::new().unwrap();
    // What a person sees is both at once.
    let script = format!("exec 2>&1\n{command}\ncode=$?; pwd > '{}'; exit $code\n", at_end.path().display());
    let typed: String =
        rest.lines().filter_map(|line| line.strip_prefix("> ")).map(|line| format!("{line}\n")).collect();
    let mut child = shell(&script, folder, home)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that reads nothing may be gone by now.
    let _ = child.stdin.take().unwrap().write_all(typed.as_bytes());
    let output = child.wait_with_output().unwrap();
    let left_in = fs::read_to_string(at_end.path()).unwrap();
    if !left_in.is_empty() {
        *folder = left_in.trim_end().into();
    }
    output
}

/// Returns `true` if a line was printed; `…` stands for anything.
fn matches(shown: &str, printed: &str) -> bool {
    if !shown.contains('…') {
        return shown == printed;
    }
    let pattern: Vec<String> = shown.split('…').map(regex::escape).collect();
    Regex::new(&format!("^{}$", pattern.join(".*"))).unwrap().is_match(printed)
}

/// A script in which `opcell` is the command under test, for a user with this home.
pub fn shell(script: &str, directory: &Path, home: &Path) -> Command {
    let mut path: Vec<PathBuf> = vec![Path::new(env!("CARGO_BIN_EXE_opcell")).parent().unwrap().to_owned()];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let mut shell = Command::new("sh");
    shell
        .args(["-c", script])
        .current_dir(directory)
        .env("PATH", std::env::join_paths(path).unwrap())
        .env("HOME", home)
        .env_remove("XDG_CACHE_HOME")
        .env_remove("XDG_STATE_HOME");
    shell
}

#[test]
fn a_fence_is_closed_by_one_that_is_as_long() {
    let text = "a\n````markdown file=x.md\n```workflow\nsteps\n```\n````\n```console\n$ true\n```\n";
    let found = blocks(text);
    assert_eq!(found.len(), 2);
    assert_eq!((found[0].language(), found[0].file()), ("markdown", Some("x.md")));
    assert_eq!(found[0].text, "```workflow\nsteps\n```\n");
    assert_eq!(found[1].text, "$ true\n");
}

#[test]
fn what_is_shown_is_all_that_was_printed_but_for_marked_gaps() {
    let printed = ["run x", "> a", "done", "result"];
    assert!(is_shown(&["…", "done", "result"], &printed));
    assert!(is_shown(&["run …", "> a", "done", "result"], &printed));
    assert!(!is_shown(&["done", "result"], &printed), "a gap that is not marked");
    assert!(!is_shown(&["…", "result", "done"], &printed), "another order");
    assert!(!is_shown(&["…", "done"], &printed), "the end is missing");
    assert_eq!(in_order(&["result", "> a"], &printed), Ok(vec!["…", "> a", "…", "result"]));
    assert_eq!(in_order(&["none"], &printed), Err("none"));
    let text = "$ a\nx\n\n$ b\nx\n";
    assert_eq!(corrected(text, &[("$ b\nx\n".to_owned(), "$ b\ny\n".to_owned())]), "$ a\nx\n\n$ b\ny\n");
}

#[test]
fn dots_stand_for_anything_and_nothing_else_does() {
    assert!(matches("first  …  done", "first  22.5 ms  done"));
    assert!(!matches("first  …  done", "first  22.5 ms  failed"));
    assert!(!matches("a.c", "abc"));
}
