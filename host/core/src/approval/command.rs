//! Commands of a shell by their words, as far as they can be known without running them.

use opcell_ir::ir::matches_word;
use opcell_types::text::is_invisible;

/// The depth to which texts in commands are read as commands.
const DEPTH: usize = 4;

/// The most words that are looked at; longer commands are uncertain.
const MAX_WORDS: usize = 10_000;

/// Programs that run what they are given in another form than words.
const INTERPRETERS: &[&str] = &[
    "sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "csh", "tcsh", "eval", "source", ".", "exec", "command",
    "builtin", "busybox", "python", "perl", "ruby", "node", "deno", "bun", "php", "lua", "awk", "gawk", "xargs",
    "parallel", "ssh", "su", "make", "script", "mawk", "nawk", "tclsh", "expect", "pwsh", "trap", "alias", "watch",
    "batch", "crontab", "at", "bind", "doas", "enable", "nodejs", "npx", "bunx", "ts-node", "tsx", "pypy", "pipx",
    "uvx", "rscript", "julia", "java", "groovy", "scala", "elixir", "erl", "runghc", "gdb", "lldb", "vi", "vim",
    "nvim", "ex", "ed", "emacs",
];

/// The fewest letters of an interpreter that is looked for behind the letter of an option: `-lash` lists files.
const MIN_ATTACHED_INTERPRETER: usize = 4;

/// Characters that may precede a program: `!rm` of an alias of git, `@rm` and `-rm` of a line of make.
const PREFIXES: [char; 4] = ['!', '@', '-', '+'];

/// One word of a command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Word {
    text: String,
    /// `true` if unquoted `*` or `?` mean files.
    is_pattern: bool,
}

/// One command of a line, between operators.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Simple {
    words: Vec<Word>,
}

/// A line of commands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Line {
    commands: Vec<Simple>,
    /// `true` if more than the text decides what runs: expansions, braces, quotes that do not end.
    is_open: bool,
    /// `false` if files are read or written by redirection, variables are set, or parts run in the background or in a
    /// subshell.
    is_plain: bool,
}

/// Returns `true` if a text may run a command that one of the patterns names, whatever is before, after or around
/// it, however it is quoted, and whatever its case.
pub(super) fn may_run(text: &str, patterns: &[String]) -> bool {
    let mut left = vec![(text.to_owned(), 0, true)];
    while let Some((text, depth, is_outer)) = left.pop() {
        let line = read(&text);
        if line.is_open && is_outer {
            return true;
        }
        for simple in &line.commands {
            // Anywhere but in front, a dot is this folder.
            let runs = |(at, word): (usize, &Word)| (at == 0 || word.text != ".") && word.is_interpreter();
            let interprets = simple.words.iter().enumerate().any(runs);
            if interprets || patterns.iter().any(|pattern| simple.contains(pattern)) {
                return true;
            }
            let nested = simple.words.iter().filter(|word| word.text.contains(is_operator));
            for word in nested {
                if depth >= DEPTH {
                    return true;
                }
                left.push((word.text.clone(), depth + 1, false));
            }
        }
    }
    false
}

/// Returns `true` if all that a text certainly runs is named by the patterns, word by word, and nothing else happens.
pub(super) fn is_covered(text: &str, patterns: &[String]) -> bool {
    let line = read(text);
    let certain = !line.is_open && line.is_plain && !line.commands.is_empty();
    certain && line.commands.iter().all(|simple| patterns.iter().any(|pattern| simple.is(pattern)))
}

/// The words of a text; `None` when they depend on more than the text.
pub(super) fn words(text: &str) -> Option<Vec<String>> {
    let line = read(text);
    let words = line.commands.into_iter().flat_map(|simple| simple.words);
    (!line.is_open).then(|| words.map(|word| word.text).collect())
}

fn is_operator(c: char) -> bool {
    c.is_whitespace() || matches!(c, ';' | '&' | '|' | '(' | ')' | '`' | '$' | '<' | '>')
}

/// As it is compared with a pattern of what asks.
fn folded(text: &str) -> String {
    text.chars().filter(|c| !is_invisible(*c)).flat_map(char::to_lowercase).collect()
}

/// The programs that a word may hold behind something else: an option's letters (`-Srm`), a sign (`EXEC:rm,pty`,
/// `-c:!rm`), or an address with a letter (`1erm` of sed). What is behind a slash is its base name already.
fn attached(word: &str) -> impl Iterator<Item = &str> {
    let base = basename(word);
    let letters = base.strip_prefix('-').filter(|rest| !rest.starts_with('-')).unwrap_or_default();
    let digits = base.trim_start_matches(|c: char| c.is_ascii_digit());
    let command = if digits.len() < base.len() { digits } else { "" };
    let after =
        |text: &'_ str, count: usize| text.char_indices().nth(count).map(|(at, _)| base.len() - text.len() + at);
    let places = [after(letters, 1), after(letters, 2), after(command, 0), after(command, 1)];
    let behind_signs = base.split([':', '!', ',', '@', '+']).skip(1);
    places.into_iter().flatten().filter_map(|at| base.get(at..)).chain(behind_signs).filter(|rest| !rest.is_empty())
}

fn basename(text: &str) -> &str {
    text.rsplit('/').next().unwrap_or(text)
}

impl Word {
    /// The word, and what is after each `=` in it: `--checkpoint-action=exec=rm`, `PAGER=rm`.
    fn values(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.text.as_str()).chain(self.text.split('=').skip(1))
    }

    fn is_interpreter(&self) -> bool {
        let attached = self.values().flat_map(attached).filter(|value| value.len() >= MIN_ATTACHED_INTERPRETER);
        self.values().chain(attached).any(|value| {
            let name = folded(basename(value.trim_start_matches(['!', '@'])));
            let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
            INTERPRETERS.iter().any(|known| {
                *known == name
                    || (!plain.is_empty() && *known == plain)
                    || (self.is_pattern && matches_word(&name, known))
            })
        })
    }

    fn may_be(&self, wanted: &str, is_program: bool) -> bool {
        let is = |own: &str| match self.is_pattern {
            true => matches_word(own, wanted) || matches_word(wanted, own),
            false => matches_word(wanted, own),
        };
        self.values().map(folded).any(|own| {
            let bare = own.trim_start_matches(PREFIXES);
            let is_attached = || attached(&own).any(&is);
            is(&own) || (is_program && (is(basename(&own)) || is(basename(bare)) || is_attached()))
        })
    }
}

impl Simple {
    /// Returns `true` if the words of a pattern are among these, in order.
    fn contains(&self, pattern: &str) -> bool {
        let mut wanted: Vec<String> = pattern.split_whitespace().map(folded).collect();
        wanted.pop_if(|last| last == "*");
        let letters: String = self.words.iter().filter_map(|word| short_options(&word.text)).collect();
        let mut words = self.words.iter();
        wanted.iter().enumerate().all(|(at, wanted)| {
            // Letters of options can be written in any order, together or apart.
            let as_letters = short_options(wanted).is_some_and(|short| short.chars().all(|c| letters.contains(c)));
            as_letters || words.any(|word| word.may_be(wanted, at == 0))
        })
    }

    /// Returns `true` if these are the words of a pattern, and no others unless it ends with `*`.
    fn is(&self, pattern: &str) -> bool {
        let wanted: Vec<&str> = pattern.split_whitespace().collect();
        let (wanted, is_open) = match wanted.split_last() {
            Some((&"*", before)) if !before.is_empty() => (before, true),
            _ => (wanted.as_slice(), false),
        };
        let fits = if is_open { self.words.len() >= wanted.len() } else { self.words.len() == wanted.len() };
        let is_clean = |word: &Word| !word.is_pattern && !word.text.contains(|c| is_invisible(c) || c == '\n');
        fits && !wanted.is_empty()
            && self.words.iter().all(is_clean)
            && wanted.iter().zip(&self.words).all(|(wanted, word)| matches_word(wanted, &word.text))
    }
}

/// The letters of a word such as `-rf`.
fn short_options(word: &str) -> Option<String> {
    let letters = word.strip_prefix('-')?;
    (!letters.is_empty() && letters.chars().all(|c| c.is_ascii_alphabetic())).then(|| letters.to_lowercase())
}

/// Words that begin or end a compound command: what is between them depends on what they say.
const KEYWORDS: [&str; 16] = [
    "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "function", "select",
    "!", "time",
];

fn read(text: &str) -> Line {
    let mut line = Line { is_plain: true, ..Line::default() };
    let mut simple = Simple::default();
    let mut word: Option<Word> = None;
    let mut count = 0;
    let mut chars = text.chars().peekable();
    let mut end_word = |word: &mut Option<Word>, simple: &mut Simple, line: &mut Line| {
        let Some(word) = word.take() else { return };
        count += 1;
        line.is_open |= count > MAX_WORDS;
        if simple.words.is_empty() {
            line.is_open |= KEYWORDS.contains(&word.text.as_str());
            line.is_plain &= !is_assignment(&word.text);
        }
        if count <= MAX_WORDS {
            simple.words.push(word);
        }
    };
    while let Some(c) = chars.next() {
        match c {
            '\'' => {
                let word = word.get_or_insert_default();
                let mut ended = false;
                for c in chars.by_ref() {
                    if c == '\'' {
                        ended = true;
                        break;
                    }
                    word.text.push(c);
                }
                line.is_open |= !ended;
            }
            '"' => {
                let word = word.get_or_insert_default();
                let mut ended = false;
                while let Some(c) = chars.next() {
                    match c {
                        '"' => {
                            ended = true;
                            break;
                        }
                        '$' | '`' => {
                            line.is_open = true;
                            word.text.push(c);
                        }
                        '\\' => match chars.next() {
                            Some('\n') => {}
                            Some(c @ ('$' | '`' | '"' | '\\')) => word.text.push(c),
                            Some(c) => word.text.extend(['\\', c]),
                            None => {}
                        },
                        c => word.text.push(c),
                    }
                }
                line.is_open |= !ended;
            }
            '\\' => match chars.next() {
                Some('\n') => {}
                Some(c) => word.get_or_insert_default().text.push(c),
                None => line.is_open = true,
            },
            ' ' | '\t' => end_word(&mut word, &mut simple, &mut line),
            '\n' | ';' | '&' | '|' | '(' | ')' => {
                end_word(&mut word, &mut simple, &mut line);
                if !simple.words.is_empty() {
                    line.commands.push(std::mem::take(&mut simple));
                }
                let doubled = c == '&' && chars.next_if_eq(&'&').is_some();
                line.is_plain &= !matches!(c, '(' | ')') && (c != '&' || doubled);
            }
            '<' | '>' => {
                end_word(&mut word, &mut simple, &mut line);
                line.is_plain = false;
                // The lines after `<<` are a text of their own rules, in which a quote begins nothing.
                if c == '<' && chars.next_if_eq(&'<').is_some() {
                    line.is_open |= chars.next_if_eq(&'<').is_none();
                }
            }
            '#' if word.is_none() => {
                line.is_plain = false;
                while chars.next_if(|c| *c != '\n').is_some() {}
            }
            '$' | '`' | '{' | '}' | '[' => {
                line.is_open = true;
                word.get_or_insert_default().text.push(c);
            }
            '*' | '?' => {
                let word = word.get_or_insert_default();
                word.is_pattern = true;
                word.text.push(c);
            }
            '~' if word.is_none() => {
                line.is_plain = false;
                word.get_or_insert_default().text.push(c);
            }
            c => {
                line.is_open |= c.is_control();
                word.get_or_insert_default().text.push(c);
            }
        }
    }
    end_word(&mut word, &mut simple, &mut line);
    if !simple.words.is_empty() {
        line.commands.push(simple);
    }
    line
}

/// Returns `true` if a word sets a variable for the command after it.
fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else { return false };
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '+')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(text: &str, pattern: &str) -> bool {
        may_run(text, &[pattern.to_owned()])
    }

    fn covers(text: &str, pattern: &str) -> bool {
        is_covered(text, &[pattern.to_owned()])
    }

    #[test]
    fn a_command_is_found_wherever_it_is_on_the_line_and_however_it_is_written() {
        for text in [
            "rm -rf x",
            "ls && rm -rf x",
            "ls; rm x",
            "ls\nrm x",
            "ls & rm x",
            "ls | rm x",
            "(rm x)",
            "/bin/rm x",
            "RM x",
            "r\\m x",
            "'r'm x",
            "\"rm\" x",
            "r''m x",
            "rm\tx",
            "sudo rm x",
            "env A=1 rm x",
            "A=1 rm x",
            "find . -exec rm {} \\;",
            "sh -c 'rm x'",
            "echo cm0gLXJm | base64 -d | sh",
            "python3.11 -c 'import os'",
            "timeout 5 rm x",
            "git config alias.x '!rm -rf /'",
            "nice 'ls; rm x'",
            "$(echo rm) x",
            "`echo rm` x",
            "${X}m x",
            "{rm,-rf,x}",
            "/bin/r? x",
            "/bin/[r]m x",
            "r\u{200b}m x",
            "echo 'x",
            "if true; then rm x; fi",
            "tar -cf x y --checkpoint-action=exec=rm",
            "GIT_PAGER=rm git log",
            "git -c alias.x=!sh x",
            "/bin/b?sh x",
            "trap '$(printf r)m x' EXIT",
            "cat <<E\n'\nE\n$(printf r)m x #'",
        ] {
            assert!(asks(text, "rm"), "{text:?}");
        }
        for text in [
            "ls",
            "cargo test",
            "git commit -m 'alarm'",
            "ls *.rs",
            "grep 'confirm' x",
            "git add .",
            "cat <<< x",
            "cargo test --jobs=2",
        ] {
            assert!(!asks(text, "rm"), "{text:?}");
        }
    }

    #[test]
    fn words_between_and_the_order_of_options_are_no_evasion() {
        assert!(asks("git -C x push origin", "git push"));
        assert!(asks("rm -fr x", "rm -rf"));
        assert!(asks("rm -r -v -f x", "rm -rf"));
        assert!(!asks("rm x", "rm -rf"));
        assert!(!asks("git status", "git push"));
        assert!(asks("git push", "git push *"));
    }

    #[test]
    fn what_is_covered_is_named_word_by_word_and_nothing_else_happens() {
        for text in ["cargo test", "cargo  test", "'cargo' test", "cargo test && cargo test", "cargo test; cargo test"]
        {
            assert!(covers(text, "cargo test"), "{text:?}");
        }
        for text in [
            "",
            "cargo",
            "cargo test --release",
            "cargo test && rm x",
            "cargo test; rm x",
            "cargo test\nrm x",
            "cargo test | sh",
            "cargo test & rm x",
            "cargo test &",
            "cargo test > /etc/passwd",
            "cargo test $(rm x)",
            "cargo test `rm x`",
            "CARGO_HOME=/tmp cargo test",
            "Cargo test",
            "./cargo test",
            "cargo test #",
            "cargo tes\u{200b}t",
            "(cargo test)",
            "cargo 'test",
            "cargo te?t",
            "! cargo test",
        ] {
            assert!(!covers(text, "cargo test"), "{text:?}");
        }
        assert!(covers("cargo test --release -- x", "cargo test *"));
        assert!(!covers("cargo test -- $X", "cargo test *"));
        assert!(!covers("cargo build", "cargo test *"));
    }

    #[test]
    fn a_command_is_found_behind_an_option_a_sign_or_an_address() {
        for text in [
            "env -Srm v",
            "flock f -crm\\ v",
            "rsync -erm a b:c",
            "tar -Irm\\ x y",
            "vim -c:!rm\\ x",
            "sed '1erm -f v' f",
            "socat - EXEC:rm",
            "socat - SYSTEM:rm\\ x",
            "npx x",
            "nodejs x.js",
            "pypy3 x.py",
            "java -jar x.jar",
            "man -Pbash x",
        ] {
            assert!(asks(text, "rm"), "{text}");
        }
        for text in ["ls -lash", "ls -l form.txt", "cat a:b", "sed -n 1,20p term.txt", "grep -rn arm src"] {
            assert!(!asks(text, "rm"), "{text}");
        }
    }

    #[test]
    fn a_word_of_many_signs_is_read_once() {
        let word = ":".repeat(1 << 16);
        assert_eq!(attached(&word).count(), 0);
        assert!(!asks(&format!("echo {}", ":a".repeat(1 << 16)), "rm"));
    }

    #[test]
    fn very_long_commands_are_read_in_bounds() {
        assert!(asks(&"a ".repeat(MAX_WORDS + 1), "rm"));
        assert!(!covers(&"a ".repeat(MAX_WORDS + 1), "a *"));
        assert!(asks(&"'".repeat(100_001), "rm"));
    }
}
