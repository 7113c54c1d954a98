//! `opcell plugin grant`.

use super::{Component, Exit, Failure, Global, Terminal, named, policy};
use crate::cli::{missing::no_project, trust::command_needed};
use clap::{Args, ValueEnum};
use opcell::{
    config::{
        Config, PluginConfig,
        edit::{self, NewCredential, NewGrant},
        lock,
    },
    http::OriginPattern,
    places::Places,
    report::Rejected,
    services::HTTP_FETCH as FETCH,
};
use opcell_ir::Diagnostic;
use opcell_types::files::Readers;
use opcell_types::{Capability, Remedy};
use serde_json::json;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct GrantArgs {
    /// Name of the plugin in the project.
    #[arg(value_name = "PLUGIN")]
    plugin: String,
    /// Kind of the grant.
    #[arg(value_name = "KIND")]
    kind: Kind,
    /// Tool, skill, directory as NAME=PATH, store, or host such as `https://api.github.com`.
    #[arg(value_name = "WHAT")]
    what: String,
    /// For `files`: allow creating, changing and removing files.
    #[arg(long)]
    write: bool,
    /// For `files`: restrict to matching paths, such as `**/*.rs` (repeatable).
    #[arg(long, value_name = "PATTERN")]
    glob: Vec<String>,
    /// For `store`: bytes of keys and values, such as `4 MiB`. Defaults to 1 MiB.
    #[arg(long, value_name = "BYTES")]
    quota: Option<String>,
    /// For `store`: give every run a store of its own.
    #[arg(long)]
    per_run: bool,
    /// For `http`: HTTP method (repeatable). Defaults to GET and HEAD.
    #[arg(long, value_name = "METHOD")]
    method: Vec<String>,
    /// For `http`: allow loopback and private network addresses.
    #[arg(long)]
    private: bool,
    /// For `http`: environment variable with a secret that the host adds as a header; the plugin never sees it.
    #[arg(long, value_name = "NAME", conflicts_with = "credential_file")]
    credential_env: Option<String>,
    /// For `http`: file with such a secret.
    #[arg(long, value_name = "FILE")]
    credential_file: Option<String>,
    /// For `http`: header of the secret. Defaults to `authorization`, with `Bearer ` before the secret.
    #[arg(long, value_name = "HEADER")]
    credential_header: Option<String>,
}

/// A value and not a subcommand: a plugin may have the name of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// A tool: `http.fetch`, a name of `[tools]`, or the ID of an operation.
    Tool,
    /// A skill.
    Skill,
    /// A directory under a name; read-only unless `--write` is given.
    Files,
    /// A store that the plugin keeps from one call to the next, under a name.
    Store,
    /// `http.fetch` requests to a host.
    Http,
}

/// Writes what a run asked for into the project file, as the command that its refusal names would.
pub fn grant_always(global: &Global, remedy: &Remedy, terminal: &Terminal) -> Result<(), Failure> {
    grant(global, &always(remedy)?, terminal).map(drop)
}

/// The same where no one reads a terminal; the file that has it now.
#[cfg(feature = "server")]
pub fn grant_always_unseen(global: &Global, remedy: &Remedy) -> Result<PathBuf, Failure> {
    Ok(write(global, &always(remedy)?)?.file)
}

fn always(remedy: &Remedy) -> Result<GrantArgs, Failure> {
    let (kind, what, method) = match remedy {
        Remedy::Grant { capability: Capability::Tool, name, .. } => (Kind::Tool, name, None),
        Remedy::Grant { capability: Capability::Skill, name, .. } => (Kind::Skill, name, None),
        Remedy::Grant { capability: Capability::Store, name, .. } => (Kind::Store, name, None),
        Remedy::AllowHttp { origin, method, private: false, .. } => (Kind::Http, origin, method.clone()),
        other => return Err(Diagnostic::error("invalid-grant", format!("this needs more than a word: {other}")).into()),
    };
    Ok(GrantArgs {
        plugin: remedy.plugin().unwrap_or_default().to_owned(),
        kind,
        what: what.clone(),
        write: false,
        glob: Vec::new(),
        quota: None,
        per_run: false,
        method: method.into_iter().collect(),
        private: false,
        credential_env: None,
        credential_file: None,
        credential_header: None,
    })
}

impl GrantArgs {
    fn read(&self) -> Result<NewGrant, Rejected> {
        let invalid = |message: String| Diagnostic::error("invalid-grant", message);
        let options = [
            ("--write", self.write, Kind::Files),
            ("--glob", !self.glob.is_empty(), Kind::Files),
            ("--quota", self.quota.is_some(), Kind::Store),
            ("--per-run", self.per_run, Kind::Store),
            ("--method", !self.method.is_empty(), Kind::Http),
            ("--private", self.private, Kind::Http),
            ("--credential-env", self.credential_env.is_some(), Kind::Http),
            ("--credential-file", self.credential_file.is_some(), Kind::Http),
            ("--credential-header", self.credential_header.is_some(), Kind::Http),
        ];
        if let Some((option, _, kind)) = options.iter().find(|(_, given, kind)| *given && *kind != self.kind) {
            let kind = match kind {
                Kind::Files => "files",
                Kind::Store => "store",
                _ => "http",
            };
            return Err(invalid(format!("`{option}` applies to grants of kind `{kind}` only")).into());
        }
        let what = self.what.clone();
        Ok(match self.kind {
            Kind::Tool => NewGrant::Tool(what),
            Kind::Skill => NewGrant::Skill(what),
            Kind::Files => {
                let (name, path) = what
                    .split_once('=')
                    .filter(|(name, path)| !name.is_empty() && !path.is_empty())
                    .ok_or_else(|| {
                        invalid(format!("`{what}` is not `NAME=PATH`")).help(
                            "expected the name under which the plugin opens the directory, and the directory: `repo=.`",
                        )
                    })?;
                let (name, path) = (name.to_owned(), path.to_owned());
                NewGrant::Files { name, path, write: self.write, globs: self.glob.clone() }
            }
            Kind::Store => NewGrant::Store { name: what, quota: self.quota.clone(), per_run: self.per_run },
            Kind::Http => {
                let credential = match (&self.credential_env, &self.credential_file) {
                    (Some(name), _) => Some(("env", name)),
                    (None, Some(file)) => Some(("file", file)),
                    (None, None) if self.credential_header.is_some() => {
                        let message = "`--credential-header` says nothing of the secret".to_owned();
                        return Err(invalid(message).help("add `--credential-env` or `--credential-file`").into());
                    }
                    (None, None) => None,
                };
                let header = self.credential_header.clone();
                let credential = credential.map(|(key, place)| NewCredential { header, key, place: place.clone() });
                NewGrant::Http { host: what, methods: self.method.clone(), private: self.private, credential }
            }
        })
    }
}

pub fn grant(global: &Global, args: &GrantArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let Written { file, changed, unused, missing } = write(global, args)?;
    if terminal.json {
        terminal.json(&json!({"file": file, "plugin": args.plugin, "changed": changed, "missing": missing}))?;
    } else {
        let what = if changed { "granted in" } else { "nothing to change: already granted in" };
        terminal.line(&format!("{what} {}; see `opcell plugin explain {}`", file.display(), args.plugin))?;
    }
    // What was granted may reach outside of the project's folder, which needs consent before it applies.
    if let Some(command) = command_needed(global)? {
        terminal.note(&format!("it applies once the project has your consent: {command}"));
    }
    for missing in missing {
        terminal.note(&missing);
    }
    for unused in unused {
        terminal.note(&format!("note: plugin `{}` does not request {unused}; the grant has no effect", args.plugin));
    }
    Ok(Exit::Done)
}

/// A grant in the project file.
struct Written {
    file: PathBuf,
    /// `true` if it was not there before.
    changed: bool,
    /// Grants that the plugin does not ask for.
    unused: Vec<String>,
    /// Returns the settings that the grant needs in addition, a sentence each.
    missing: Vec<String>,
}

fn write(global: &Global, args: &GrantArgs) -> Result<Written, Failure> {
    let config = global.proposed()?;
    let Some(file) = &config.file else {
        return Err(no_project().into());
    };
    let plugin = named(&config, &args.plugin)?;
    let old = config.source.text();
    let new = edit::grant(old, &args.plugin, &args.read()?)
        .map_err(|error| Diagnostic::error("project-file-invalid", format!("{}: {error}", file.display())))?;
    // What would be written must mean something before anything is written.
    let granted = Config::parse(&file.display().to_string(), new.clone(), &config.root)?;
    let changed = new != old;
    if changed {
        let file = file.canonicalize()?;
        lock::write_whole(&file, &new, Readers::of(&file))?;
    }
    // Who grants something to a plugin has looked at this version of it: the next one is an upgrade, loaded before or
    // not.
    let component = Component::of(plugin).ok();
    if let (Some(lock), Some(component)) = (&config.lock, &component) {
        lock.remember_new(&plugin.name, component.locked(plugin), &Places::of_user())?;
    }
    let mut unused = Vec::new();
    if let (Some(component), Some(plugin)) = (&component, granted.plugins.get(&args.plugin)) {
        let policy = policy(plugin, component);
        unused.extend(policy.unused_grants().into_iter().map(|(kind, name)| format!("{} `{name}`", kind.word())));
    }
    let missing = granted.plugins.get(&args.plugin).map(|plugin| still_missing(args, plugin));
    Ok(Written { file: file.clone(), changed, unused, missing: missing.unwrap_or_default() })
}

/// Returns what a grant about `http.fetch` needs in addition to have an effect.
fn still_missing(args: &GrantArgs, plugin: &PluginConfig) -> Vec<String> {
    let grant = format!("opcell plugin grant {}", args.plugin);
    match args.kind {
        Kind::Tool if args.what == FETCH && plugin.grants.http.is_empty() => {
            vec![format!("`{FETCH}` reaches no host yet; to allow one: {grant} http URL")]
        }
        Kind::Http if !args.private => {
            let origin = args.what.parse::<OriginPattern>().ok().filter(OriginPattern::is_private);
            let methods: String = args.method.iter().map(|method| format!(" --method {method}")).collect();
            let missing = |origin: OriginPattern| {
                format!(
                    "`{origin}` is this machine or a private network, which a rule allows only with `--private`: {grant} \
                     http {origin}{methods} --private"
                )
            };
            origin.map(missing).into_iter().collect()
        }
        _ => Vec::new(),
    }
}
