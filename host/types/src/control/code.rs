//! Files that programs load by themselves, as their names say: sources, modules, and what build tools and interpreters
//! read beside them.

use super::plain;
use std::path::Path;

/// Extensions of what interpreters, linkers and build tools load.
const ENDINGS: [&str; 68] = [
    "py", "pyi", "pyc", "pyo", "pyd", "pyx", "pth", "ipynb", "so", "dylib", "dll", "node", "js", "mjs", "cjs", "jsx",
    "ts", "mts", "cts", "tsx", "vue", "svelte", "rb", "rake", "gemspec", "pl", "pm", "php", "phar", "lua", "luac",
    "tcl", "r", "jl", "sh", "bash", "zsh", "fish", "ksh", "bat", "cmd", "ps1", "psm1", "exe", "jar", "class", "java",
    "kt", "kts", "scala", "groovy", "gradle", "clj", "cljs", "cljc", "bb", "ex", "exs", "erl", "beam", "rs", "go",
    "wasm", "mk", "cs", "csx", "inc", "envrc",
];

/// Names of files that build tools and runners read.
const NAMES: [&str; 51] = [
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
    "pyvenv.cfg",
    ".env",
    ".npmrc",
    ".yarnrc.yml",
    ".pnp.data.json",
];

/// Folders in which a file without an extension is a script.
const FOLDERS: [&str; 12] =
    ["bin", "sbin", "lib", "libexec", "src", "script", "scripts", "cmd", "hooks", "tools", "ci", "functions"];

/// Returns `true` if a program that runs in the folder of this file, or imports from there, may load it unasked.
#[must_use]
pub fn is_code(path: &Path) -> bool {
    let Some(name) = path.file_name() else { return false };
    let name = plain(&name.to_string_lossy());
    if NAMES.contains(&name.as_str()) {
        return true;
    }
    match name.rsplit_once('.') {
        Some((_, ending)) => ENDINGS.contains(&ending),
        None => {
            let folder = path.parent().and_then(Path::file_name);
            folder.is_some_and(|folder| FOLDERS.contains(&plain(&folder.to_string_lossy()).as_str()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_and_what_build_tools_read_are_code_and_texts_are_not() {
        for path in [
            "a/b.py",
            "x.JS",
            "Makefile",
            "package.json",
            "lib.so",
            "run.sh",
            "x.py.",
            "__pycache__/x.cpython-312.pyc",
            "lib/serve",
            "a/bin/run",
            "srv/serve.inc",
            ".venv/pyvenv.cfg",
        ] {
            assert!(is_code(Path::new(path)), "{path}");
        }
        for path in ["notes.md", "data.json", "out.csv", "report.edn", "py", ".py/x", "notes", "lib/x.md"] {
            assert!(!is_code(Path::new(path)), "{path}");
        }
    }
}
