//! Building a plugin with its language's own tools.

use crate::{
    AuthorError, Language, Project, component,
    template::{CONTRACT, write_contract},
    toolchain::{self, on_path},
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// What the component is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Profile {
    /// Small and fast.
    #[default]
    Release,
    /// Built quickly, with what a panic needs to say where.
    Debug,
}

/// A component that was built.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Built {
    /// Where it lies: `dist/NAME.wasm` in the plugin's folder.
    pub path: PathBuf,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Builds a plugin. The tools' own messages go to stderr.
///
/// # Errors
/// [`AuthorError::MissingTool`] with the command that installs it, [`AuthorError::ToolFailed`], or why no component came of it.
pub fn build(project: &Project, profile: Profile) -> Result<Built, AuthorError> {
    let scratch = project.folder.join("target/opcell");
    fs::create_dir_all(&scratch).map_err(AuthorError::file(&scratch))?;
    let made = match project.language {
        Language::Rust => rust(project, profile)?,
        Language::Javascript => javascript(project, profile, &scratch)?,
        Language::Python => python(project, &scratch)?,
        Language::C => c(project, profile, &scratch)?,
    };
    let mut bytes = fs::read(&made).map_err(AuthorError::file(&made))?;
    if project.language == Language::C {
        component::describe(&mut bytes, &CONTRACT, "plugin")
            .map_err(|message| AuthorError::Component { path: made.clone(), message })?;
    }
    let bytes = component::finish(project, &made, &bytes)?;
    let folder = project.folder.join("dist");
    fs::create_dir_all(&folder).map_err(AuthorError::file(&folder))?;
    let path = folder.join(format!("{}.wasm", project.name));
    // Whoever loads the plugin now gets the old file or the new one, and never half of it.
    let half = folder.join(format!(".{}.wasm.part", project.name));
    fs::write(&half, &bytes).map_err(AuthorError::file(&half))?;
    fs::rename(&half, &path).map_err(AuthorError::file(&path))?;
    Ok(Built { path, bytes })
}

fn rust(project: &Project, profile: Profile) -> Result<PathBuf, AuthorError> {
    if on_path("cargo").is_none() {
        let install = "curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh".to_owned();
        return Err(AuthorError::MissingTool { language: "Rust", tool: "cargo", install });
    }
    let toolchain = toolchain::Toolchain::installed(&project.folder).ok_or_else(|| AuthorError::MissingTool {
        language: "Rust",
        tool: "the standard library of wasm32-unknown-unknown",
        install: format!("rustup target add {}", toolchain::TARGET),
    })?;
    let target = project.folder.join("target");
    let mut command = toolchain.build(&project.folder);
    command.current_dir(&project.folder).arg("--target-dir").arg(&target);
    if profile == Profile::Release {
        command.arg("--release");
    }
    run(&mut command)?;
    let module = format!("{}.wasm", project.name.replace('-', "_"));
    let folder = if profile == Profile::Release { "release" } else { "debug" };
    Ok(target.join(toolchain::TARGET).join(folder).join(module))
}

fn javascript(project: &Project, profile: Profile, scratch: &Path) -> Result<PathBuf, AuthorError> {
    let local = project.folder.join("node_modules/.bin/componentize-qjs");
    let program = if local.is_file() { Some(local) } else { on_path("componentize-qjs") };
    let program = program.ok_or_else(|| AuthorError::MissingTool {
        language: "JavaScript",
        tool: "componentize-qjs",
        install: "npm install --save-dev componentize-qjs@0.4.5".to_owned(),
    })?;
    let (wit, output) = (write_contract(scratch)?, scratch.join("plugin.wasm"));
    let mut command = Command::new(program);
    command.current_dir(&project.folder).arg("--wit").arg(wit).args(["--world", "plugin", "--module-root", "."]);
    command.arg("--js").arg(&project.source).args(["--sync", "--opt-size", "--stub-wasi", "-o"]).arg(&output);
    if profile == Profile::Release {
        command.arg("--minify");
    }
    run(&mut command)?;
    Ok(output)
}

fn python(project: &Project, scratch: &Path) -> Result<PathBuf, AuthorError> {
    let local = project.folder.join(".venv/bin/componentize-py");
    let program = if local.is_file() { Some(local) } else { on_path("componentize-py") };
    let program = program.ok_or_else(|| AuthorError::MissingTool {
        language: "Python",
        tool: "componentize-py",
        install: "pip install componentize-py==0.25.1".to_owned(),
    })?;
    let (wit, output) = (write_contract(scratch)?, scratch.join("plugin.wasm"));
    let module = project.source.file_stem().unwrap_or_default();
    let sources = project.source.parent().unwrap_or(Path::new("."));
    let mut command = Command::new(program);
    command.current_dir(&project.folder).arg("-d").arg(wit).args(["-w", "plugin", "componentize"]).arg(module);
    command.arg("-p").arg(sources).args(["-p", "sdk", "-o"]).arg(&output);
    // The interpreter's memory becomes part of the component: the same source must give the same one.
    command.env("PYTHONHASHSEED", "0").env("PYTHONDONTWRITEBYTECODE", "1");
    run(&mut command)?;
    Ok(output)
}

fn c(project: &Project, profile: Profile, scratch: &Path) -> Result<PathBuf, AuthorError> {
    let missing = |tool| AuthorError::MissingTool { language: "C", tool, install: "sudo apt-get install clang lld".to_owned() };
    let clang = on_path("clang").ok_or_else(|| missing("clang"))?;
    if !["wasm-ld", "wasm-ld-14", "wasm-ld-16", "wasm-ld-19"].into_iter().any(|linker| on_path(linker).is_some()) {
        return Err(missing("wasm-ld"));
    }
    let output = scratch.join("plugin.wasm");
    let mut command = Command::new(clang);
    command.current_dir(&project.folder);
    command.args(["--target=wasm32-unknown-unknown", "-std=c17", "-Wall", "-Wextra", "-nostdlib", "-mexec-model=reactor"]);
    command.args(["-Isdk", "-fno-builtin", "-Wl,--no-entry", "-Wl,-z,stack-size=65536", "-Wl,--stack-first"]);
    command.args(match profile {
        Profile::Release => ["-Oz", "-Wl,--strip-all"],
        Profile::Debug => ["-O1", "-g"],
    });
    command.arg(&project.source).arg("sdk/opcell.c").arg("-o").arg(&output);
    run(&mut command)?;
    Ok(output)
}

fn run(command: &mut Command) -> Result<(), AuthorError> {
    let shown = || command_line(command);
    let text = shown();
    // What the tools print is for people, and stdout is for results.
    let status = command.stdout(std::io::stderr()).status().map_err(AuthorError::file(text.as_str()))?;
    if status.success() { Ok(()) } else { Err(AuthorError::ToolFailed { command: text, status: status.to_string() }) }
}

fn command_line(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let arguments = command.get_args().take(3).map(|argument| argument.to_string_lossy().into_owned());
    std::iter::once(program).chain(arguments).collect::<Vec<_>>().join(" ")
}
