//! `opcell plugin push`: a component with its bill of materials and signature.

use super::{Component, Exit, Failure, Global, Terminal, build, registry};
use crate::cli::missing::signing_keys;
use clap::Args;
use opcell::document;
use opcell_author::{Profile, sbom};
use opcell_ir::Diagnostic;
use opcell_registry::{
    Reference,
    client::{Client, Push},
    reference::ReferenceError,
    signature::{DEFAULT_KEY, Digests, SignatureFile},
    store::MAX_SBOM,
};
use serde_json::json;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub struct PushArgs {
    /// Destination: `oci://HOST/NAME:TAG`.
    #[arg(value_name = "REF")]
    reference: String,
    /// A `.wasm` file, or the plugin's folder, which is built first; this folder if omitted.
    path: Option<PathBuf>,
    /// The key that signs it, by its name; see `opcell key new`.
    #[arg(long, default_value = DEFAULT_KEY)]
    key: String,
    /// Push without a signature.
    #[arg(long, conflicts_with = "key")]
    unsigned: bool,
    /// Replace what the tag names now. `update` offers the new version to everyone who added the plugin by this tag.
    #[arg(long)]
    replace: bool,
    /// Bill of materials, CycloneDX in JSON. Generated from the folder's `Cargo.lock` if omitted.
    #[arg(long, value_name = "FILE")]
    sbom: Option<PathBuf>,
}

pub async fn push(global: &Global, args: &PushArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let reference: Reference = args
        .reference
        .parse()
        .map_err(|error: ReferenceError| Diagnostic::error("invalid-source", error.to_string()))?;
    if reference.tag().is_none() || reference.digest().is_some() {
        let finding = Diagnostic::error("invalid-source", format!("{reference} is not a tag to push to"));
        return Err(finding.help("end it with a tag such as `:1.0`, and without a digest").into());
    }
    let path = args.path.clone().unwrap_or_else(|| PathBuf::from("."));
    let component = if path.is_dir() {
        let (_, built) = build::built(global, &path, Profile::Release).await?;
        Component::read(&built.path)?
    } else {
        Component::read(&path)?
    };
    let digests = Digests::of(&component.bytes);
    // Before anything is sent: a missing key is noticed first.
    let signature = if args.unsigned { None } else { Some(sign(&args.key, &digests)?) };
    let sbom = bill(args, &path, &component, &digests)?;
    let push = Push {
        imports: component.surface.imports.clone(),
        exports: component.surface.exports.clone(),
        component: component.bytes,
        signature,
        sbom: Some(sbom),
    };
    // A registry that does not say what a tag names is asked to take the push, and refuses it itself.
    if !args.replace
        && let Ok(manifest) = Client::new().resolve(&reference).await
    {
        let message = format!("{reference} exists already: the tag names {manifest}");
        let help = "push under another tag, or replace it for everyone who uses it: `--replace`";
        return Err(Diagnostic::error("tag-exists", message).help(help).into());
    }
    let pushed = Client::new().push(&reference, &push).await.map_err(|error| registry::wrong(&error))?;
    let key = push.signature.as_ref().and_then(|file| file.signer(&pushed.digests.blake3).ok());
    if terminal.json {
        terminal.json(&json!({
            "reference": reference.to_string(), "manifest": pushed.manifest, "digest": pushed.digests.blake3,
            "bytes": push.component.len(), "publisher": key.map(|key| key.to_string()),
        }))?;
        return Ok(Exit::Done);
    }
    terminal.line(&format!("pushed {reference}\n  {}  {} bytes", pushed.manifest, push.component.len()))?;
    match key {
        Some(key) => terminal.line(&format!("  signed by {key}"))?,
        None => terminal.note("it has no signature: whoever adds it must say `--unsigned`"),
    }
    Ok(Exit::Done)
}

fn sign(key: &str, digests: &Digests) -> Result<SignatureFile, Failure> {
    let keys = signing_keys()?;
    let opened = keys.open(key).map_err(|error| {
        let known = keys.names().is_ok_and(|names| names.iter().any(|name| name == key));
        let missing = error.kind() == std::io::ErrorKind::NotFound && !known;
        let what = if missing { "it does not exist".to_owned() } else { error.to_string() };
        let help = match key {
            _ if !missing => "`opcell key list` lists the keys".to_owned(),
            DEFAULT_KEY => "make one with `opcell key new`, or push with `--unsigned`".to_owned(),
            _ => format!("make it with `opcell key new {key}`; `opcell key list` lists the keys"),
        };
        Diagnostic::error("no-key", format!("the key `{key}` cannot be used: {what}")).help(help)
    })?;
    Ok(opened.sign(digests))
}

fn bill(args: &PushArgs, path: &Path, component: &Component, digests: &Digests) -> Result<Vec<u8>, Failure> {
    let wrong = |file: &Path, what: String| Diagnostic::error("sbom-unreadable", format!("{}: {what}", file.display()));
    if let Some(file) = &args.sbom {
        let bytes = document::read_bounded(file, MAX_SBOM).map_err(|error| wrong(file, error))?;
        let read: Result<serde_json::Value, _> = serde_json::from_slice(&bytes);
        let read = read.map_err(|error| wrong(file, error.to_string()))?;
        if read.get("bomFormat").and_then(serde_json::Value::as_str) != Some("CycloneDX") {
            return Err(wrong(file, "it is not CycloneDX in JSON".to_owned()).into());
        }
        return Ok(bytes);
    }
    let manifest = &component.surface.manifest;
    let name = manifest.name.as_deref().unwrap_or("plugin");
    let version = manifest.version.as_deref().unwrap_or("0");
    let lock = path.join("Cargo.lock");
    if !path.is_dir() || !lock.is_file() {
        return Ok(sbom::without_materials(name, version, &digests.sha256).into_bytes());
    }
    let text = document::read_bounded(&lock, MAX_SBOM).map_err(|error| wrong(&lock, error))?;
    let text = String::from_utf8_lossy(&text);
    let bill = sbom::of_cargo_lock(name, version, &digests.sha256, &text).map_err(|error| wrong(&lock, error))?;
    Ok(bill.into_bytes())
}
