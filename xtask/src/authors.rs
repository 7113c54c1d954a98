//! The tool chains of plugins in other languages: installs what may be installed here, and says what to type for the
//! rest.

use crate::process::{output, succeeds_within};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The time that a package manager may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// A tool, what it is for, and the command that installs it.
struct Tool {
    language: &'static str,
    program: &'static str,
    install: &'static [&'static str],
    /// `true` if the command changes the machine rather than the user's own packages.
    root: bool,
}

const TOOLS: [Tool; 5] = [
    Tool {
        language: "Python",
        program: "componentize-py",
        install: &["pip", "install", "componentize-py==0.25.1"],
        root: false,
    },
    // Each JavaScript plugin installs its own esbuild and componentize-qjs.
    Tool { language: "JavaScript", program: "npm", install: &["apt-get", "install", "--yes", "npm"], root: true },
    // With it, a plugin that is built twice has one digest.
    Tool {
        language: "Reproducible JavaScript",
        program: "faketime",
        install: &["apt-get", "install", "--yes", "faketime"],
        root: true,
    },
    Tool { language: "C", program: "clang", install: &["apt-get", "install", "--yes", "clang", "lld"], root: true },
    Tool { language: "C", program: "wasm-ld", install: &["apt-get", "install", "--yes", "lld"], root: true },
];

/// Makes every language's tools available, as far as that is possible without asking.
pub fn install() {
    for tool in TOOLS {
        let typed = tool.install.join(" ");
        if found(tool.program) {
            eprintln!("authors: {} has {}", tool.language, tool.program);
            continue;
        }
        let may = !tool.root || output(Command::new("id").arg("-u")).is_some_and(|id| id.trim() == "0");
        let [program, arguments @ ..] = tool.install else { continue };
        if may && succeeds_within(PATIENCE, Command::new(program).args(arguments)) && found(tool.program) {
            eprintln!("authors: {} has {} now", tool.language, tool.program);
        } else {
            let sudo = if tool.root { "sudo " } else { "" };
            eprintln!("authors: {} plugins need {}: {sudo}{typed}", tool.language, tool.program);
        }
    }
}

fn found(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| Path::new(&folder).join(program).is_file())
}
