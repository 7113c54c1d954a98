//! Files that programs load by themselves, as their names say: sources, modules, and what build tools and interpreters
//! read beside them.

use super::plain;
use std::path::Path;

/// Extensions of what interpreters, linkers and build tools load.
const ENDINGS: [&str; 106] = [
    "py", "pyi", "pyc", "pyo", "pyd", "pyx", "pth", "ipynb", "so", "dylib", "dll", "node", "js", "mjs", "cjs", "jsx",
    "ts", "mts", "cts", "tsx", "vue", "svelte", "rb", "rake", "gemspec", "pl", "pm", "php", "phar", "lua", "luac",
    "tcl", "r", "jl", "sh", "bash", "zsh", "fish", "ksh", "bat", "cmd", "ps1", "psm1", "exe", "jar", "class", "java",
    "kt", "kts", "scala", "groovy", "gradle", "clj", "cljs", "cljc", "bb", "ex", "exs", "erl", "beam", "rs", "go",
    "wasm", "mk", "cs", "csx", "inc", "envrc", "make", "mak", "ninja", "cmake", "gn", "gni", "bazel", "bzl", "star",
    "csproj", "fsproj", "vbproj", "proj", "props", "targets", "sln", "slnx", "fs", "fsx", "vb", "nix", "zig", "zon",
    "cabal", "hs", "lhs", "ml", "mli", "swift", "dart", "cr", "nim", "podspec", "sbt", "tf", "hcl", "sc", "mill",
];

/// Names of files that build tools and runners read.
const NAMES: [&str; 161] = [
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
    "bsdmakefile",
    ".env.local",
    "taskfile.dist.yml",
    "taskfile.dist.yaml",
    "procfile.dev",
    "containerfile",
    "compose.override.yml",
    "compose.override.yaml",
    "docker-compose.override.yml",
    "docker-compose.override.yaml",
    "yarn.config.cjs",
    ".yarnrc",
    "lerna.json",
    "nx.json",
    "turbo.json",
    "rush.json",
    ".babelrc",
    ".swcrc",
    ".mocharc.json",
    ".mocharc.yml",
    "nodemon.json",
    "vite.config.json",
    "uv.toml",
    "poetry.toml",
    "pdm.toml",
    "pdm.lock",
    "hatch.toml",
    "pytest.ini",
    "noxfile.toml",
    "tasks.toml",
    "conda.yml",
    "environment.yml",
    "pipfile.lock",
    "go.work",
    "go.work.sum",
    "rust-toolchain",
    "rust-toolchain.toml",
    "mix.lock",
    "rebar.config",
    "rebar.lock",
    "gradle.properties",
    "gradle-wrapper.properties",
    "gradle.lockfile",
    "libs.versions.toml",
    "build.properties",
    "maven.config",
    "jvm.config",
    "extensions.xml",
    "deps.edn",
    "bb.edn",
    "shadow-cljs.edn",
    "tests.edn",
    "build.edn",
    "directory.build.rsp",
    "nuget.config",
    "global.json",
    "dotnet-tools.json",
    "packages.lock.json",
    "composer.lock",
    "sconstruct",
    "sconscript",
    "wscript",
    "build",
    "buck",
    "workspace",
    "module.bazel",
    ".bazelrc",
    ".buckconfig",
    "pants.toml",
    "pants.ci.toml",
    "meson_options.txt",
    "meson.options",
    "cmakepresets.json",
    "cmakeuserpresets.json",
    "ctestcustom.ctest",
    "dune",
    "dune-project",
    "dune-workspace",
    "cabal.project",
    "stack.yaml",
    "package.yaml",
    "build.xml",
    "ivy.xml",
    "vagrantfile",
    "guardfile",
    "capfile",
    "thorfile",
    "brewfile",
    "podfile",
    "fastfile",
    "dangerfile",
    "appfile",
    "berksfile",
    "jenkinsfile",
    "tiltfile",
    "earthfile",
    "honchofile",
    "overmindfile",
    ".overmind.env",
    ".foreman",
    "mise.toml",
    ".mise.toml",
    ".tool-versions",
    ".python-version",
    ".ruby-version",
    ".node-version",
    ".nvmrc",
    ".envrc",
    "flake.lock",
    "artisan",
];

/// Folders in which a file without an extension is a script.
const FOLDERS: [&str; 12] =
    ["bin", "sbin", "lib", "libexec", "src", "script", "scripts", "cmd", "hooks", "tools", "ci", "functions"];

/// Files of tools whose names say it only with their folders'.
const IN_FOLDERS: [(&str, &str); 4] =
    [(".cargo", "config.toml"), (".cargo", "config"), (".bundle", "config"), (".mvn", "settings.xml")];

/// Returns `true` if a program that runs in the folder of this file, or imports from there, may load it unasked.
#[must_use]
pub fn is_code(path: &Path) -> bool {
    let Some(name) = path.file_name() else { return false };
    let name = plain(&name.to_string_lossy());
    let folder = path.parent().and_then(Path::file_name).map(|folder| plain(&folder.to_string_lossy()));
    let folder = folder.as_deref().unwrap_or_default();
    if NAMES.contains(&name.as_str()) || IN_FOLDERS.contains(&(folder, name.as_str())) {
        return true;
    }
    match name.rsplit_once('.') {
        Some((_, ending)) => ENDINGS.contains(&ending),
        None => FOLDERS.contains(&folder),
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
            ".cargo/config.toml",
            "a/BUILD",
            "config.make",
            "App.csproj",
        ] {
            assert!(is_code(Path::new(path)), "{path}");
        }
        for path in [
            "notes.md",
            "data.json",
            "out.csv",
            "report.edn",
            "py",
            ".py/x",
            "notes",
            "lib/x.md",
            "config.toml",
            "a/config",
        ] {
            assert!(!is_code(Path::new(path)), "{path}");
        }
    }
}
