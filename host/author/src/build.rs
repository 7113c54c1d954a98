//! Building a plugin with its language's own tools.

use crate::{
    AuthorError, Language, Project, component, inputs,
    template::{CONTRACT, write_contract},
    toolchain::{self, on_path},
};
use opcell_types::files::{Folder, Readers, read_bounded, read_text_bounded};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// The most that is read of what was built: with debug information far more than a host takes.
const MAX_COMPONENT: u64 = 256 << 20;

/// The longest note of what a component was built from.
const MAX_NOTE: u64 = 4 << 10;

/// The purpose of the component.
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
    /// The path of the component: `dist/NAME.wasm` in the plugin's folder.
    pub path: PathBuf,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// `true` if it was there already, made from the same inputs.
    pub reused: bool,
    /// Why a build from nothing has another digest; none if it has the same one.
    pub varies: Option<&'static str>,
}

/// The program that takes the random numbers and the clock of the machine out of the snapshot of an interpreter.
const FAKETIME: &str = "faketime";

/// The moment and the seed of every build under it: any would do, and must stay the same.
const MOMENT: [&str; 2] = ["-f", "2024-01-01 00:00:00"];
const SEED: &str = "0x6F7063656C6C0001";

/// Builds a plugin. The tools' own messages go to stderr.
///
/// # Errors
/// [`AuthorError::MissingTool`] with the command that installs it, [`AuthorError::ToolFailed`], or why no component
/// came of it.
pub fn build(project: &Project, profile: Profile) -> Result<Built, AuthorError> {
    let folder = project.folder.join("dist");
    let path = folder.join(format!("{}.wasm", project.name));
    let scratch = project.folder.join("target/opcell");
    let own = Folder::open(&project.folder).map_err(AuthorError::file(&project.folder))?;
    let made_scratch = own.make_below(Path::new("target/opcell"), Readers::Shared);
    let made_scratch = made_scratch.map_err(AuthorError::file(&scratch))?;
    let tool = tool(project)?;
    let faketime = on_path(FAKETIME).filter(|_| project.language == Language::Javascript);
    let varies = match project.language {
        Language::Rust | Language::C => None,
        Language::Javascript if faketime.is_some() => None,
        Language::Javascript => Some(
            "the component holds the random numbers and the time of its build; with `faketime` on the path it would \
             not: sudo apt-get install faketime",
        ),
        Language::Python => Some(
            "the component holds the random numbers, the time and the temporary files of its build, and \
             componentize-py cannot leave them out",
        ),
    };
    // Cargo knows itself what has changed, and gives the same bytes for the same source.
    let inputs = match project.language {
        Language::Rust => None,
        _ => inputs::digest(project, &tool, &format!("{profile:?} {}", varies.is_none()))?,
    };
    let note = scratch.join("built");
    if let (Some(inputs), Ok(bytes)) = (&inputs, read_bounded(&path, MAX_COMPONENT))
        && read_text_bounded(&note, MAX_NOTE).is_ok_and(|noted| noted == noted_line(inputs, &bytes))
    {
        return Ok(Built { path, bytes, reused: true, varies });
    }
    let made = match project.language {
        Language::Rust => rust(project, profile)?,
        Language::Javascript => javascript(project, profile, &tool, faketime.as_deref(), &made_scratch)?,
        Language::Python => python(project, &tool, &made_scratch)?,
        Language::C => c(project, profile, &tool, &made_scratch)?,
    };
    let mut bytes = read_bounded(&made, MAX_COMPONENT).map_err(AuthorError::file(&made))?;
    if project.language == Language::C {
        component::describe(&mut bytes, &CONTRACT, "plugin")
            .map_err(|message| AuthorError::Component { path: made.clone(), message })?;
    }
    let bytes = component::finish(project, &made, &bytes)?;
    let dist = own.make_below(Path::new("dist"), Readers::Shared).map_err(AuthorError::file(&folder))?;
    let name = format!("{}.wasm", project.name);
    dist.replace(&name, &bytes, Readers::Shared).map_err(AuthorError::file(&path))?;
    if let Some(inputs) = inputs {
        let line = noted_line(&inputs, &bytes);
        made_scratch.replace("built", line.as_bytes(), Readers::Shared).map_err(AuthorError::file(&note))?;
    }
    Ok(Built { path, bytes, reused: false, varies })
}

/// Makes a component of a core module that carries its interface: `x.wasm` becomes `x.component.wasm` beside it.
///
/// # Errors
/// [`AuthorError::Component`] when it is not such a module, or [`AuthorError::File`].
pub fn componentize(module: &Path) -> Result<Built, AuthorError> {
    let bytes = read_bounded(module, MAX_COMPONENT).map_err(AuthorError::file(module))?;
    let bytes =
        component::of_module(&bytes).map_err(|message| AuthorError::Component { path: module.to_owned(), message })?;
    let path = module.with_extension("component.wasm");
    opcell_types::files::replace(&path, &bytes, Readers::Shared).map_err(AuthorError::file(&path))?;
    Ok(Built { path, bytes, reused: false, varies: None })
}

fn noted_line(inputs: &str, component: &[u8]) -> String {
    format!("{inputs} {}\n", blake3::hash(component).to_hex())
}

/// The program that a plugin's folder brings along for building it, in place of one that is installed. Whoever made the
/// folder chose it, and it runs with the rights of whoever builds.
#[must_use]
pub fn tool_of_folder(project: &Project) -> Option<PathBuf> {
    let path = match project.language {
        Language::Javascript => "node_modules/.bin/componentize-qjs",
        Language::Python => ".venv/bin/componentize-py",
        Language::Rust | Language::C => return None,
    };
    Some(project.folder.join(path)).filter(|path| path.is_file())
}

/// The program that builds plugins of the language.
fn tool(project: &Project) -> Result<PathBuf, AuthorError> {
    let missing =
        |language, tool, install: &str| AuthorError::MissingTool { language, tool, install: install.to_owned() };
    let own = tool_of_folder(project);
    match project.language {
        Language::Rust => on_path("cargo")
            .ok_or_else(|| missing("Rust", "cargo", "curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh")),
        Language::Javascript => own
            .or_else(|| on_path("componentize-qjs"))
            .ok_or_else(|| missing("JavaScript", "componentize-qjs", "npm install --save-dev componentize-qjs@0.4.5")),
        Language::Python => own.or_else(|| on_path("componentize-py")).ok_or_else(|| {
            missing(
                "Python",
                "componentize-py",
                "python3 -m venv .venv && .venv/bin/pip install componentize-py==0.25.1",
            )
        }),
        Language::C => {
            let linkers =
                ["wasm-ld", "wasm-ld-19", "wasm-ld-18", "wasm-ld-17", "wasm-ld-16", "wasm-ld-15", "wasm-ld-14"];
            let clang = on_path("clang").ok_or_else(|| missing("C", "clang", "sudo apt-get install clang lld"))?;
            match linkers.into_iter().any(|linker| on_path(linker).is_some()) {
                true => Ok(clang),
                false => Err(missing("C", "wasm-ld", "sudo apt-get install lld")),
            }
        }
    }
}

fn rust(project: &Project, profile: Profile) -> Result<PathBuf, AuthorError> {
    let toolchain = toolchain::Toolchain::installed(&project.folder).ok_or_else(|| AuthorError::MissingTool {
        language: "Rust",
        tool: "the standard library of wasm32-unknown-unknown",
        install: match toolchain::on_path("rustup") {
            None if Path::new("/etc/debian_version").exists() => {
                "sudo apt-get install rustc-web cargo-web rust-web-src lld-19".to_owned()
            }
            // Where rustup cannot download it, Debian's own packages build the library along.
            _ if Path::new("/etc/debian_version").exists() => format!(
                "rustup target add {}, or sudo apt-get install rustc-web cargo-web rust-web-src lld-19",
                toolchain::TARGET
            ),
            _ => format!("rustup target add {}", toolchain::TARGET),
        },
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

fn javascript(
    project: &Project,
    profile: Profile,
    tool: &Path,
    faketime: Option<&Path>,
    scratch: &Folder,
) -> Result<PathBuf, AuthorError> {
    let (wit, output) = (write_contract(scratch)?, scratch.path().join("plugin.wasm"));
    let mut command = match faketime {
        Some(faketime) => {
            let mut command = Command::new(faketime);
            // The moment is one of the time zone.
            command.env("TZ", "UTC").env("FAKERANDOM_SEED", SEED).args(MOMENT).arg(tool);
            command
        }
        None => Command::new(tool),
    };
    command.current_dir(&project.folder).arg("--wit").arg(wit).args(["--world", "plugin", "--module-root", "."]);
    command.arg("--js").arg(&project.source).args(["--sync", "--opt-size", "--stub-wasi", "-o"]).arg(&output);
    if profile == Profile::Release {
        command.arg("--minify");
    }
    run(&mut command)?;
    Ok(output)
}

fn python(project: &Project, tool: &Path, scratch: &Folder) -> Result<PathBuf, AuthorError> {
    let (wit, output) = (write_contract(scratch)?, scratch.path().join("plugin.wasm"));
    let module = project.source.file_stem().unwrap_or_default();
    let sources = project.source.parent().unwrap_or(Path::new("."));
    let mut command = Command::new(tool);
    command.current_dir(&project.folder).arg("-d").arg(wit).args(["-w", "plugin", "componentize"]).arg(module);
    command.arg("-p").arg(sources).args(["-p", "sdk", "-o"]).arg(&output);
    // The interpreter's memory becomes part of the component: the same source must give the same one.
    command.env("PYTHONHASHSEED", "0").env("PYTHONDONTWRITEBYTECODE", "1");
    run(&mut command)?;
    Ok(output)
}

fn c(project: &Project, profile: Profile, tool: &Path, scratch: &Folder) -> Result<PathBuf, AuthorError> {
    let output = scratch.path().join("plugin.wasm");
    let mut command = Command::new(tool);
    command.current_dir(&project.folder);
    command.args([
        "--target=wasm32-unknown-unknown",
        "-std=c17",
        "-Wall",
        "-Wextra",
        "-nostdlib",
        "-mexec-model=reactor",
    ]);
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
    match status.success() {
        true => Ok(()),
        false => Err(AuthorError::ToolFailed { command: text, status: status.to_string() }),
    }
}

fn command_line(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let arguments = command.get_args().take(3).map(|argument| argument.to_string_lossy().into_owned());
    std::iter::once(program).chain(arguments).collect::<Vec<_>>().join(" ")
}
