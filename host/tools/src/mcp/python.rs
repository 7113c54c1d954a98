//! Python's compiled files. A checkout's say what they like about their sources: servers look for them in a folder of
//! this user's.
//!
//! Python is told so by a variable. An interpreter that ignores variables, as it does with `-E` and `-I`, is told by an
//! option where the server's program is that interpreter. What a shell or a script starts so cannot be told, and reads
//! `__pycache__` as it would without this host.

#[cfg(feature = "mcp")]
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

/// The variable that names the folder in which Python looks for compiled files, instead of `__pycache__`.
pub(super) const CACHE_VARIABLE: &str = "PYTHONPYCACHEPREFIX";

/// The option that names it.
#[cfg(feature = "mcp")]
const CACHE_OPTION: &str = "pycache_prefix";

/// Programs that start another one without the variables they were started with.
const CLEARING: [&str; 4] = ["sudo", "doas", "su", "runuser"];

/// This user's folder for what Python compiles; a place that holds nothing for a user without a home.
#[cfg(feature = "mcp")]
pub(super) fn cache() -> PathBuf {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    cache.map_or_else(|| "/dev/null/python".into(), |cache| cache.join("opcell/python"))
}

/// Returns the options to insert before a server's own arguments: those that an interpreter needs that ignores the
/// variable.
#[cfg(feature = "mcp")]
pub(super) fn options(program: &str, arguments: &[String], cache: &Path) -> Vec<OsString> {
    let is_told = arguments.iter().any(|argument| argument.contains(CACHE_OPTION));
    if is_told || !is_cpython(program) || !ignores_variables(arguments.iter().map(String::as_str)) {
        return Vec::new();
    }
    let mut option = OsString::from(format!("{CACHE_OPTION}="));
    option.push(cache);
    vec!["-X".into(), option]
}

/// Returns `true` if a command starts an interpreter of Python that reads `__pycache__` whatever this host says.
#[must_use]
pub fn reads_pycache(program: &str, arguments: &[String]) -> bool {
    let is_boundary = |c: char| c.is_whitespace() || ";&|()'\"`".contains(c);
    let words = std::iter::once(program).chain(arguments.iter().map(String::as_str));
    let words: Vec<&str> = words.flat_map(|word| word.split(is_boundary)).filter(|word| !word.is_empty()).collect();
    let is_cleared = |at: usize, word: &str| {
        let next = words.get(at + 1).copied().unwrap_or_default();
        let clears = name_of(word) == "env" && (next.starts_with("-i") || next.starts_with("-u") || next == "-")
            || next.starts_with("--ignore-env")
            || next.starts_with("--unset");
        clears || word.contains(CACHE_VARIABLE) || CLEARING.contains(&name_of(word))
    };
    // Where the program itself is the interpreter, an option tells it.
    let is_told = |at: usize, word: &str| at == 0 && is_cpython(word);
    let rest = |at: usize| words.iter().skip(at + 1).copied();
    words
        .iter()
        .enumerate()
        .any(|(at, word)| is_cleared(at, word) || is_python(word) && !is_told(at, word) && ignores_variables(rest(at)))
}

/// Returns `true` if the first line of a script names an interpreter of Python that ignores variables.
#[must_use]
pub fn is_started_without_variables(first_line: &str) -> bool {
    let Some(command) = first_line.strip_prefix("#!") else { return false };
    // Not the program of the command: the kernel inserts no option.
    reads_pycache("#!", &[command.to_owned()])
}

fn name_of(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

fn is_python(word: &str) -> bool {
    let name = name_of(word).trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    matches!(name, "python" | "pypy" | "pythonw")
}

fn is_cpython(word: &str) -> bool {
    is_python(word) && !name_of(word).starts_with("pypy")
}

/// Returns `true` if the options that an interpreter begins with have it ignore variables, as in `-I`, `-sE`.
fn ignores_variables<'a>(mut options: impl Iterator<Item = &'a str>) -> bool {
    while let Some(option) = options.next() {
        if option == "--check-hash-based-pycs" {
            options.next();
            continue;
        }
        let Some(letters) = option.strip_prefix('-').filter(|letters| !letters.is_empty() && *letters != "-") else {
            return false;
        };
        if letters.starts_with('-') {
            continue;
        }
        for (at, letter) in letters.char_indices() {
            match letter {
                'E' | 'I' => return true,
                // What follows is the program and its arguments.
                'c' | 'm' => return false,
                // With a value: the rest, or the next word.
                'W' | 'X' => {
                    if at + 1 == letters.len() {
                        options.next();
                    }
                    break;
                }
                _ => {}
            }
        }
    }
    false
}

#[cfg(all(test, feature = "mcp"))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test")]

    use super::{OsString, is_started_without_variables, options, reads_pycache};
    use std::{fs, path::Path, process::Command};

    fn words(text: &str) -> (String, Vec<String>) {
        let mut words = text.split(' ').map(str::to_owned);
        (words.next().unwrap_or_default(), words.collect())
    }

    #[test]
    fn an_interpreter_that_ignores_variables_is_told_by_an_option() {
        for (command, is_told) in [
            ("python3 -I srv.py", true),
            ("/usr/bin/python3.11 -B -sE srv.py", true),
            ("python -W ignore -X dev -I -m srv", true),
            ("python -Wignore -I srv.py", true),
            ("python3 --check-hash-based-pycs always -E srv.py", true),
            ("python3 srv.py -I", false),
            ("python3 -m srv -E", false),
            ("python3 -X importtime srv.py", false),
            ("python3 -X pycache_prefix=/x -I srv.py", false),
            ("node -E srv.js", false),
            ("pypy3 -E srv.py", false),
        ] {
            let (program, arguments) = words(command);
            let told = options(&program, &arguments, Path::new("/cache"));
            let expected: &[&str] = if is_told { &["-X", "pycache_prefix=/cache"] } else { &[] };
            assert_eq!(told, expected, "{command}");
        }
    }

    #[test]
    fn what_cannot_be_told_is_known_to_read_compiled_files() {
        for (program, argument, reads) in [
            ("sh", "cd srv && exec python3 -I main.py", true),
            ("sh", "python3 main.py", false),
            ("env", "-i", true),
            ("sh", "unset PYTHONPYCACHEPREFIX; python3 main.py", true),
            ("sudo", "python3", true),
            ("pypy3", "-E", true),
            ("python3", "-I", false),
            ("uv", "run", false),
        ] {
            assert_eq!(reads_pycache(program, &[argument.to_owned()]), reads, "{program} {argument}");
        }
        assert!(is_started_without_variables("#!/usr/bin/env -S python3 -I"));
        assert!(is_started_without_variables("#!/usr/bin/python3 -E"));
        assert!(!is_started_without_variables("#!/usr/bin/env python3"));
        assert!(!is_started_without_variables("import python3 -I"));
    }

    /// A file that says when its source was changed, as an archive brings it.
    #[test]
    fn python_without_variables_loads_nothing_compiled_of_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let python = |arguments: Vec<OsString>| {
            let output = Command::new("python3").args(arguments).current_dir(folder.path()).output().ok()?;
            Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        fs::write(folder.path().join("m.py"), "said = 'source'\n").unwrap();
        fs::write(folder.path().join("main.py"), "import m; print(m.said)\n").unwrap();
        let plant = "import importlib._bootstrap_external as b, importlib.util as u, os\n\
            s = os.stat('m.py'); os.mkdir('__pycache__')\n\
            c = compile('said = \"planted\"', 'm.py', 'exec')\n\
            open(u.cache_from_source('m.py'), 'wb').write(b._code_to_timestamp_pyc(c, int(s.st_mtime), s.st_size))";
        if python(vec!["-c".into(), plant.into()]).is_none() {
            eprintln!("SKIPPED: install python3");
            return;
        }
        let own = ["-E".to_owned(), "main.py".to_owned()];
        let as_it_is = own.iter().map(OsString::from).collect();
        assert_eq!(python(as_it_is).unwrap(), "planted");
        let mut told = options("python3", &own, &folder.path().join("cache"));
        told.extend(own.iter().map(OsString::from));
        assert_eq!(python(told).unwrap(), "source");
    }
}
