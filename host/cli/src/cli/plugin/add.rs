//! `opcell plugin add`.

use super::{
    Component, Exit, Failure, Global, Terminal, change, name_of_file,
    registry::{self, Expected},
    sandbox, update,
};
use clap::Args;
use opcell::{
    config::{
        Config, FILE_NAME, MAX_BYTES, edit,
        lock::{Lock, Locked, write_whole},
    },
    consent::{Reach, Request},
    places::Places,
    source::is_source,
};
use opcell_ir::Diagnostic;
use opcell_registry::{Reference, reference::ReferenceError};
use opcell_sandbox::{Exports, Grants};
use opcell_types::{
    Digest,
    files::{Readers, read_text_bounded},
    text::one_line,
};
use serde_json::json;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Bytes of the line of an operation: its ID and a whole summary.
const SHOWN_OFFER_BYTES: usize = 1_200;

#[derive(Debug, Args)]
pub struct AddArgs {
    /// `oci://HOST/NAME:TAG`, `oci://HOST/NAME@sha256:…`, or a `.wasm` or `.js` file.
    #[arg(value_name = "REF")]
    reference: String,
    /// Name of the plugin in the project. Defaults to the last part of the reference.
    #[arg(long)]
    name: Option<String>,
    /// Accept only a version that this key signed, `ed25519:…`.
    #[arg(long, value_name = "KEY")]
    publisher: Option<String>,
    /// Accept a version without a signature.
    #[arg(long, conflicts_with = "publisher")]
    unsigned: bool,
    /// Offer each function that the component exports as an operation: for a component that was not written for Opcell.
    #[arg(long)]
    typed: bool,
}

impl AddArgs {
    fn exports(&self) -> Exports {
        if self.typed { Exports::Typed(BTreeMap::new()) } else { Exports::Contract }
    }
}

/// The report on the new plugin.
struct Added {
    name: String,
    key: &'static str,
    value: String,
    locked: Locked,
    component: Component,
}

pub async fn add(global: &Global, args: &AddArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    if global.locked {
        return Err(Diagnostic::error("lock-frozen", "`--locked` leaves opcell.lock as it is").into());
    }
    let mut config = global.proposed()?;
    let file = match &config.file {
        Some(file) => file.clone(),
        None => config.root.join(FILE_NAME),
    };
    let consented = global.consented(&config)?;
    let places = Places::of_user();
    if config.file.is_none() {
        config.store = places.store(&config.root);
        config.lock = Some(Lock::beside(&file, &config.plugins)?);
    }
    let added = match Reference::is_meant_by(&args.reference) {
        true => fetched(&config, args).await?,
        false => of_file(&config, &file, args)?,
    };
    let offers = offers(&added.component).await;
    // A component that nothing says to be a plugin is one only if it loads, and a source that does not is not finished;
    // any other may need a limit of the project file.
    let must_load = args.typed || is_source(&added.component.path);
    let offers = if must_load { Ok(offers?) } else { offers };
    // A registry may have taken its time, and the user may have written in both files since.
    let text = match read_text_bounded(&file, MAX_BYTES) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error.into()),
    };
    let now = Config::parse(&file.display().to_string(), text.clone(), &config.root)?;
    check_name(&now, &added.name)?;
    let text = edit::add_plugin(
        &text,
        &added.name,
        added.key,
        &added.value,
        edit::NewPlugin { unsigned: args.unsigned, typed: args.typed },
    )
    .map_err(|error| Diagnostic::error("project-file-invalid", format!("{}: {error}", file.display())))?;
    // What would be written must mean something before anything is written.
    let mut new = Config::parse(&file.display().to_string(), text.clone(), &config.root)?;
    let lock = Lock::beside(&file, &now.plugins)?;
    let target = file.canonicalize().unwrap_or_else(|_| file.clone());
    write_whole(&target, &text, Readers::of(&target))?;
    lock.accept(&added.name, added.locked.clone(), &places)?;
    // The lock has accepted it by now: a failure stops nothing.
    if let Err(error) = lock.keep(&added.name, &added.locked, &added.component.bytes, &places) {
        terminal.failed(&update::could_not_keep(&added.name, &error));
    }
    if let Some(before) = consented {
        // Who names a registry on the command line consents to it, and to nothing else that has changed since.
        new.file = Some(file.clone());
        let fetches = format!("fetches plugin {} from ", added.name);
        let named = |request: &Request| request.reach == Reach::Hosts && request.what.starts_with(&fetches);
        global.consent(&new, &before, named, terminal)?;
    }
    report(&added, &offers, &file, terminal)
}

/// Operations and judges of a component as lines, and the functions that are none.
struct Offers {
    lines: Vec<String>,
    left_out: Vec<String>,
}

/// Compiles the component to find them. One that was written for Opcell describes itself, in a cell without grants.
async fn offers(component: &Component) -> Result<Offers, Failure> {
    if component.is_typed() && component.surface.exports.iter().any(|name| name.starts_with("opcell:plugin/")) {
        let message = format!("{} was written for Opcell: it exports `opcell:plugin`", component.path.display());
        return Err(Diagnostic::error("invalid-source", message).help("add it without `--typed`").into());
    }
    let plugin = component.load(&sandbox()?, Grants::default()).await?;
    let operations = plugin.operations().iter().map(|one| format!("operation {}  {}", one.id, one.summary));
    let judges = plugin.judges().iter().map(|one| format!("judge {}  {}", one.id, one.summary));
    Ok(Offers { lines: operations.chain(judges).collect(), left_out: plugin.left_out().to_vec() })
}

async fn fetched(config: &Config, args: &AddArgs) -> Result<Added, Failure> {
    let reference: Reference = args
        .reference
        .parse()
        .map_err(|error: ReferenceError| Diagnostic::error("invalid-source", error.to_string()))?;
    let name = args.name.clone().unwrap_or_else(|| reference.short_name().to_owned());
    check_name(config, &name)?;
    let accepted = registry::key(args.publisher.as_deref())?;
    let expected = Expected {
        name: &name,
        pinned: None,
        accepted: accepted.as_ref(),
        unsigned: args.unsigned,
        exports: &args.exports(),
    };
    let fetched = registry::fetch(&reference, &expected).await?;
    let kept = config.store.keep(&fetched.pulled.stored);
    kept.map_err(|error| Diagnostic::error("store-not-written", error.to_string()))?;
    let (locked, component) = (fetched.locked, fetched.component.with_name(&name));
    Ok(Added { name, key: "source", value: reference.to_string(), locked, component })
}

fn of_file(config: &Config, file: &Path, args: &AddArgs) -> Result<Added, Failure> {
    if args.unsigned || args.publisher.is_some() {
        let message = "`--unsigned` and `--publisher` are about plugins of a registry";
        return Err(Diagnostic::error("invalid-source", message).help("a reference begins with `oci://`").into());
    }
    let path = Path::new(&args.reference);
    let component = Component::read_as(path, &args.exports())?;
    let name = args.name.clone().unwrap_or_else(|| name_of_file(path));
    check_name(config, &name)?;
    let component = component.with_name(&name);
    // As the project file names things: from its own folder where the file is below it.
    let full = path.canonicalize()?;
    let root = file.parent().filter(|root| !root.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let shown = relative(&full, &root.canonicalize()?);
    let Some(value) = shown.to_str().map(str::to_owned) else {
        return Err(Diagnostic::error("invalid-source", "the file's name is not UTF-8").help("rename it").into());
    };
    let digest = Digest::of_hash(blake3::hash(&component.bytes));
    let requests = component.surface.manifest.requests();
    let locked = Locked::new(Some(digest), Some(component.bytes.len() as u64), requests)
        .with_version(component.surface.manifest.version.clone());
    Ok(Added { name, key: "path", value, locked, component })
}

/// A path as the project file has it: from its own folder, also where it leads out of it, since the file may be shared
/// with other machines.
fn relative(path: &Path, root: &Path) -> PathBuf {
    let shared = path.components().zip(root.components()).take_while(|(one, other)| one == other).count();
    // With nothing but the root in common, the way back says more about this machine than the path does.
    if shared < 2 {
        return path.to_owned();
    }
    let back = root.components().skip(shared).map(|_| "..");
    back.map(Path::new)
        .map(PathBuf::from)
        .chain(path.components().skip(shared).map(|part| PathBuf::from(part.as_os_str())))
        .collect()
}

fn check_name(config: &Config, name: &str) -> Result<(), Failure> {
    if !config.plugins.contains_key(name) {
        return Ok(());
    }
    let message = format!("the project has a plugin `{name}` already");
    let help = format!("call the new one something else with `--name`, or `opcell plugin remove {name}` first");
    Err(Diagnostic::error("plugin-exists", message).help(help).into())
}

fn report(added: &Added, offers: &Result<Offers, Failure>, file: &Path, terminal: &Terminal) -> Result<Exit, Failure> {
    let manifest = &added.component.surface.manifest;
    if terminal.json {
        terminal.json(&json!({
            "plugin": added.name, "file": file, added.key: added.value, "locked": added.locked, "manifest": manifest,
            "left-out": offers.as_ref().ok().map(|offers| &offers.left_out),
        }))?;
        return Ok(Exit::Done);
    }
    let version = manifest.version.as_deref().map(|version| format!(" {version}")).unwrap_or_default();
    terminal.line(&opcell::report::printable(&format!("added {}{version} from {}", added.name, added.value)))?;
    if let Some(description) = &manifest.description {
        terminal.line(&opcell::report::printable(&format!("models of the project read about it: {description}")))?;
    }
    if let (Some(name), Some(_)) = (manifest.name.as_ref().filter(|name| **name != added.name), &added.locked.source) {
        terminal.note(&opcell::report::printable(&format!("by its manifest, its name is `{name}`")));
    }
    match (&added.locked.publisher, &added.locked.source) {
        (Some(key), _) => terminal.line(&format!("publisher {key}, pinned in opcell.lock"))?,
        (None, Some(_)) => terminal.note("it has no signature: whoever can write to the registry can change it"),
        (None, None) => {}
    }
    match offers {
        Ok(offers) => listed(offers, added, terminal)?,
        Err(failure) => terminal.note(&change::does_not_load(failure)),
    }
    let requests = [
        ("tool", &manifest.tools),
        ("skill", &manifest.skills),
        ("files", &manifest.files),
        ("store", &manifest.stores),
    ];
    for (kind, request) in requests.into_iter().flat_map(|(kind, list)| list.iter().map(move |one| (kind, one))) {
        terminal
            .line(&opcell::report::printable(&format!("it asks for {kind} {}: {}", request.name, request.reason)))?;
    }
    if let Some(prompt) = &manifest.prompt {
        let text = format!("it asks to add text to prompts, {} bytes: {}", prompt.text.len(), prompt.text);
        terminal.line(&opcell::report::printable(&text))?;
    }
    if manifest.prompt.is_some() || requests.iter().any(|(_, list)| !list.is_empty()) {
        terminal.note(&format!("none of it is granted yet; see `opcell plugin explain {}`", added.name));
    }
    Ok(Exit::Done)
}

/// Operations and judges, whose summaries models read.
fn listed(offers: &Offers, added: &Added, terminal: &Terminal) -> std::io::Result<()> {
    for line in &offers.lines {
        terminal.line(&opcell::report::printable(&one_line(line, SHOWN_OFFER_BYTES)))?;
    }
    for function in &offers.left_out {
        terminal.line(&opcell::report::printable(&format!("not an operation: {function}")))?;
    }
    if !added.component.is_typed() {
        return Ok(());
    }
    let name = &added.name;
    terminal.note(&format!(
        "no call of them is repeated after a crash (effects `once`); if repeating one is harmless, say so in \
         [plugins.{name}.effects]"
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_written_from_the_folder_of_the_project() {
        let of = |path: &str, root: &str| relative(Path::new(path), Path::new(root)).display().to_string();
        assert_eq!(of("/home/ann/p/dist/x.wasm", "/home/ann/p"), "dist/x.wasm");
        assert_eq!(of("/home/ann/x.wasm", "/home/ann/p"), "../x.wasm");
        assert_eq!(of("/home/ann/q/x.wasm", "/home/ann/p/r"), "../../q/x.wasm");
        assert_eq!(of("/opt/x.wasm", "/home/ann/p"), "/opt/x.wasm");
    }
}
