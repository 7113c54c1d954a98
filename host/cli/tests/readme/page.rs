//! A page as a reader follows it, from top to bottom.
//!
//! | a block | what happens |
//! | --- | --- |
//! | any with `file=NAME` after its language | the file is written into the page's folder |
//! | `console` that begins with `$ cd examples/NAME` | runs in a copy of that example |
//! | any other `console` | runs in the page's folder |
//!
//! The commands of a block share a folder: `cd` counts until its end. What follows `$ ` is typed into a shell, what follows `> ` is typed into the command. Every other line must be
//! printed, in its order; `…` in it stands for anything. A command ends with 0, or with 3 if the page shows that the run
//! is suspended; a page that shows another exit code asks for it: `$ echo $?`.

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
    /// What follows the backticks.
    pub info: String,
    /// What stands between the fences.
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

/// What came of following a page.
#[derive(Default)]
pub struct Followed {
    /// The commands that were run.
    pub ran: usize,
    /// What was not as the page says.
    pub problems: Vec<String>,
}

/// Follows a page to its end.
pub fn follow(page: &Path) -> Followed {
    let (here, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut followed = Followed::default();
    for block in blocks(&fs::read_to_string(page).unwrap()) {
        if let Some(name) = block.file() {
            write(&here.path().join(name), &block.text);
        } else if block.language() == "console" {
            let copy = tempfile::tempdir().unwrap();
            let (folder, skipped) = match block.example() {
                Some(example) => {
                    super::copy(&root().join("examples").join(example), copy.path());
                    (copy.path(), 2)
                }
                None => (here.path(), 1),
            };
            followed.run_block(&block.text, skipped, folder, home.path());
        }
    }
    let name = page.file_name().unwrap().to_str().unwrap();
    followed.problems.iter_mut().for_each(|problem| problem.insert_str(0, &format!("{name}: ")));
    followed
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
    fn run_block(&mut self, block: &str, skipped: usize, folder: &Path, home: &Path) {
        components(block, r"\.\./()([a-z-]+\.wasm)", folder);
        let mut folder = folder.to_owned();
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
            let output = run(command, rest, &mut folder, home);
            last = output.status.code();
            self.ran += 1;
            self.compare(command, rest, asks, &output);
        }
    }

    /// Compares what a command printed with the lines that the page shows after it.
    fn compare(&mut self, command: &str, rest: &str, any_code: bool, output: &Output) {
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        // What a person sees is both at once; each line must come from one of them, in its order there.
        let (mut from_out, mut from_err) = (out.lines(), err.lines());
        for line in rest.lines().filter(|line| !line.starts_with("> ") && !line.is_empty() && *line != "…") {
            let is_it = |printed: &str| matches(line, printed);
            let found = from_out.clone().any(is_it);
            let of = if found { &mut from_out } else { &mut from_err };
            if !of.any(is_it) {
                self.problems.push(format!("`{command}` does not print {line:?}:\n{out}\n{err}"));
                return;
            }
        }
        let expected = if rest.contains("suspended at step") { 3 } else { 0 };
        if !any_code && output.status.code() != Some(expected) {
            self.problems.push(format!("`{command}` ends with {:?}:\n{out}\n{err}", output.status.code()));
        }
    }
}

/// Runs a command, and types what the page types. The folder is that in which the next command of the block runs.
fn run(command: &str, rest: &str, folder: &mut PathBuf, home: &Path) -> Output {
    let at_end = tempfile::NamedTempFile::new().unwrap();
    let script = format!("{command}\ncode=$?; pwd > '{}'; exit $code\n", at_end.path().display());
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

/// Whether a line was printed; `…` stands for anything.
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
fn dots_stand_for_anything_and_nothing_else_does() {
    assert!(matches("first  …  done", "first  22.5 ms  done"));
    assert!(!matches("first  …  done", "first  22.5 ms  failed"));
    assert!(!matches("a.c", "abc"));
}
