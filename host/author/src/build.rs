//! Building a plugin with its language's own tools.

mod javascript;
mod python;

use crate::{
    AuthorError, Language, Project, component, inputs,
    process::run,
    template::CONTRACT,
    toolchain::{self, on_path},
};
use opcell_types::files::{Folder, Readers, read_bounded, read_text_bounded};
use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
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
    /// Why a clean build gets a different digest; none if it has the same one.
    pub varies: Option<&'static str>,
}

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
    let faketime = on_path(javascript::FAKETIME).filter(|_| project.language == Language::Javascript);
    let varies = match project.language {
        Language::Rust | Language::C => None,
        Language::Javascript if faketime.is_some() => None,
        Language::Javascript => Some(
            "the component holds the time of its build; `faketime` on the path keeps it out: \
             sudo apt-get install faketime",
        ),
        Language::Python => Some(
            "the component holds the time and the temporary files of its build, and componentize-py cannot leave them \
             out",
        ),
    };
    let bundle = match project.language {
        Language::Javascript => Some(javascript::bundle(project, &made_scratch)?),
        _ => None,
    };
    // Cargo knows itself what has changed, and gives the same bytes for the same source.
    let inputs = match project.language {
        Language::Rust => None,
        _ => {
            let options = format!("{profile:?} {}", varies.is_none());
            inputs::digest(project, &tool, &options, bundle.as_ref().map(javascript::Bundle::bytes))?
        }
    };
    let note = scratch.join("built");
    if let (Some(inputs), Ok(bytes)) = (&inputs, read_bounded(&path, MAX_COMPONENT))
        && let (Ok(noted), Ok(line)) = (read_text_bounded(&note, MAX_NOTE), noted_line(inputs, &bytes, &path))
        && noted == line
    {
        return Ok(Built { path, bytes, reused: true, varies });
    }
    let made = match project.language {
        Language::Rust => rust(project, profile)?,
        Language::Javascript => {
            let bundle = bundle.ok_or_else(javascript::missing_esbuild)?;
            javascript::componentize(project, &bundle, &tool, faketime.as_deref(), &made_scratch)?
        }
        Language::Python => python::componentize(project, &tool, &made_scratch)?,
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
        let line = noted_line(&inputs, &bytes, &path).map_err(AuthorError::file(&path))?;
        made_scratch.replace("built", line.as_bytes(), Readers::Shared).map_err(AuthorError::file(&note))?;
    }
    Ok(Built { path, bytes, reused: false, varies })
}

/// Makes a component of a core module that carries its interface: `x.wasm` becomes `x.component.wasm` beside it. With
/// `wit`, the component gets the doc comments of this WIT package, and may be a component already.
///
/// # Errors
/// [`AuthorError::Component`] when it is not such a module, or [`AuthorError::File`].
pub fn componentize(module: &Path, wit: Option<&Path>) -> Result<Built, AuthorError> {
    let bytes = read_bounded(module, MAX_COMPONENT).map_err(AuthorError::file(module))?;
    let made = match wit {
        Some(wit) => component::with_docs(&bytes, wit),
        None => component::of_module(&bytes),
    };
    let bytes = made.map_err(|message| AuthorError::Component { path: module.to_owned(), message })?;
    let path = module.with_extension("component.wasm");
    opcell_types::files::replace(&path, &bytes, Readers::Shared).map_err(AuthorError::file(&path))?;
    Ok(Built { path, bytes, reused: false, varies: None })
}

/// The note on a component that was built here. The times that the system keeps of a file come with no checkout, so that
/// a folder cannot bring a component along with the claim that it was made of its sources.
fn noted_line(inputs: &str, bytes: &[u8], path: &Path) -> io::Result<String> {
    let about = fs::metadata(path)?;
    let stamp = format!("{:x}-{:x}-{}.{}", about.dev(), about.ino(), about.ctime(), about.ctime_nsec());
    Ok(format!("{inputs} {} {stamp}", blake3::hash(bytes).to_hex()))
}

/// The programs that a plugin's folder brings along for building it, in place of those that are installed. Whoever made
/// the folder chose them, and they run with the rights of whoever builds.
#[must_use]
pub fn tools_of_folder(project: &Project) -> Vec<PathBuf> {
    let paths: &[&str] = match project.language {
        Language::Javascript => &["node_modules/.bin/componentize-qjs", javascript::ESBUILD],
        Language::Python => &[".venv/bin/componentize-py"],
        Language::Rust | Language::C => &[],
    };
    paths.iter().map(|path| project.folder.join(path)).filter(|path| path.is_file()).collect()
}

/// The program that builds plugins of the language.
fn tool(project: &Project) -> Result<PathBuf, AuthorError> {
    let language = project.language.title();
    let missing = |tool, install: &str| AuthorError::MissingTool { language, tool, install: install.to_owned() };
    let own = tools_of_folder(project).into_iter().find(|path| !path.ends_with(javascript::ESBUILD));
    match project.language {
        Language::Rust => on_path("cargo").ok_or_else(|| missing("cargo", toolchain::INSTALL_RUST)),
        Language::Javascript => own.or_else(|| on_path("componentize-qjs")).ok_or_else(|| {
            missing("componentize-qjs", "npm install --save-dev componentize-qjs@0.4.5 esbuild@0.25.12")
        }),
        Language::Python => own.or_else(|| on_path("componentize-py")).ok_or_else(|| {
            missing("componentize-py", "python3 -m venv .venv && .venv/bin/pip install componentize-py==0.25.1")
        }),
        Language::C => {
            let clang = on_path("clang").ok_or_else(|| missing("clang", toolchain::INSTALL_CLANG))?;
            match toolchain::has_linker() {
                true => Ok(clang),
                false => Err(missing("wasm-ld", toolchain::INSTALL_LINKER)),
            }
        }
    }
}

fn rust(project: &Project, profile: Profile) -> Result<PathBuf, AuthorError> {
    component::agrees_with_cargo(project)?;
    let toolchain = toolchain::Toolchain::installed(&project.folder).ok_or_else(|| AuthorError::MissingTool {
        language: "Rust",
        tool: toolchain::LIBRARY,
        install: toolchain::install_library(),
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
