//! Files that programs load by themselves, as their names say: sources, modules, and what build tools and interpreters
//! read beside them.

use super::plain;
use std::path::Path;

/// Extensions of what interpreters, linkers and build tools load.
const ENDINGS: [&str; 66] = [
    "py", "pyi", "pyc", "pyo", "pyd", "pyx", "pth", "ipynb", "so", "dylib", "dll", "node", "js", "mjs", "cjs", "jsx",
    "ts", "mts", "cts", "tsx", "vue", "svelte", "rb", "rake", "gemspec", "pl", "pm", "php", "phar", "lua", "luac",
    "tcl", "r", "jl", "sh", "bash", "zsh", "fish", "ksh", "bat", "cmd", "ps1", "psm1", "exe", "jar", "class", "java",
    "kt", "kts", "scala", "groovy", "gradle", "clj", "cljs", "cljc", "bb", "ex", "exs", "erl", "beam", "rs", "go",
    "wasm", "mk", "cs", "csx",
];

/// Names of files that build tools and runners read.
const NAMES: [&str; 46] = [
    "makefile",
    "gnumakefile",
    "justfile",
    ".justfile",
    "rakefile",
    "gemfile",
    "gemfile.lock",
    "taskfile.yml",
    "taskfile.yaml",
    "procfile",
    "dockerfile",
    "compose.yml",
    "compose.yaml",
    "docker-compose.yml",
    "docker-compose.yaml",
    "package.json",
    "package-lock.json",
    "npm-shrinkwrap.json",
    "yarn.lock",
    "pnpm-lock.yaml",
    "pnpm-workspace.yaml",
    "bun.lock",
    "bun.lockb",
    "bunfig.toml",
    "tsconfig.json",
    "jsconfig.json",
    "deno.json",
    "deno.jsonc",
    "deno.lock",
    "pyproject.toml",
    "setup.cfg",
    "requirements.txt",
    "pipfile",
    "poetry.lock",
    "uv.lock",
    "tox.ini",
    "cargo.toml",
    "cargo.lock",
    "go.mod",
    "go.sum",
    "pom.xml",
    "build.sbt",
    "composer.json",
    "cmakelists.txt",
    "meson.build",
    "build.ninja",
];

/// Returns `true` if a program that runs in the folder of this file, or imports from there, may load it unasked.
#[must_use]
pub fn is_code(path: &Path) -> bool {
    let Some(name) = path.file_name() else { return false };
    let name = plain(&name.to_string_lossy());
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    NAMES.contains(&name.as_str()) || ending.is_some_and(|ending| ENDINGS.contains(&ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_and_what_build_tools_read_are_code_and_texts_are_not() {
        for path in
            ["a/b.py", "x.JS", "Makefile", "package.json", "lib.so", "run.sh", "x.py.", "__pycache__/x.cpython-312.pyc"]
        {
            assert!(is_code(Path::new(path)), "{path}");
        }
        for path in ["notes.md", "data.json", "out.csv", "report.edn", "py", ".py/x"] {
            assert!(!is_code(Path::new(path)), "{path}");
        }
    }
}
