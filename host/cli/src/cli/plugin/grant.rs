//! `opcell plugin grant`.

use super::{Component, Exit, Failure, Global, Terminal, named, policy};
use clap::{Args, Subcommand};
use opcell::{
    config::{
        Config,
        edit::{self, NewGrant},
        lock,
    },
    report::Rejected,
};
use opcell_workflow::Diagnostic;
use serde_json::json;

#[derive(Debug, Args)]
pub struct GrantArgs {
    /// Name of the plugin in the project.
    plugin: String,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Grant a host tool, such as `http.fetch`.
    Tool {
        /// Its name.
        name: String,
    },
    /// A skill.
    Skill {
        /// Its name.
        name: String,
    },
    /// Grant a directory; read-only unless `--write` is given.
    Files {
        /// Name under which the plugin opens the directory, and the directory.
        #[arg(value_name = "NAME=PATH")]
        root: String,
        /// Allow creating, changing and removing files.
        #[arg(long)]
        write: bool,
        /// Restrict to matching paths, such as `**/*.rs` (repeatable).
        #[arg(long, value_name = "PATTERN")]
        glob: Vec<String>,
    },
    /// Grant `http.fetch` requests to a host.
    Http {
        /// Host, such as `https://api.github.com` or `*.example.com`.
        host: String,
        /// HTTP method (repeatable). Defaults to GET and HEAD.
        #[arg(long, value_name = "METHOD")]
        method: Vec<String>,
        /// Allow loopback and private network addresses.
        #[arg(long)]
        private: bool,
    },
}

impl What {
    fn read(&self) -> Result<NewGrant, Rejected> {
        Ok(match self {
            Self::Tool { name } => NewGrant::Tool(name.clone()),
            Self::Skill { name } => NewGrant::Skill(name.clone()),
            Self::Files { root, write, glob } => {
                let (name, path) = root
                    .split_once('=')
                    .filter(|(name, path)| !name.is_empty() && !path.is_empty())
                    .ok_or_else(|| {
                        Diagnostic::error("invalid-grant", format!("`{root}` is not `NAME=PATH`")).help(
                            "expected the name under which the plugin opens the directory, and the directory: `repo=.`",
                        )
                    })?;
                NewGrant::Files { name: name.to_owned(), path: path.to_owned(), write: *write, globs: glob.clone() }
            }
            Self::Http { host, method, private } => {
                NewGrant::Http { host: host.clone(), methods: method.clone(), private: *private }
            }
        })
    }
}

pub fn grant(global: &Global, args: &GrantArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let config = global.config()?;
    let Some(file) = &config.file else {
        return Err(Diagnostic::error(
            "no-project",
            "there is no opcell.toml in this directory or above; create one first",
        )
        .into());
    };
    let plugin = named(&config, &args.plugin)?;
    let old = config.source.text();
    let new = edit::grant(old, &args.plugin, &args.what.read()?)
        .map_err(|error| Diagnostic::error("project-file-invalid", format!("{}: {error}", file.display())))?;
    // What would be written must mean something before anything is written.
    let granted = Config::parse(&file.display().to_string(), new.clone(), &config.root)?;
    let changed = new != old;
    if changed {
        let file = file.canonicalize()?;
        lock::write_whole(&file, &new, Some(file.metadata()?.permissions()))?;
    }
    // Who grants something to a plugin has looked at this version of it: the next one is an upgrade, loaded before or not.
    let component = Component::read(&plugin.path).ok();
    if let (Some(lock), Some(component)) = (&config.lock, &component) {
        lock.remember_new(&plugin.name, component.surface.manifest.requests())?;
    }
    if terminal.json {
        terminal.json(&json!({"file": file, "plugin": args.plugin, "changed": changed}))?;
    } else {
        let what = if changed { "granted in" } else { "nothing to change: already granted in" };
        terminal.line(&format!("{what} {}; see `opcell plugin explain {}`", file.display(), args.plugin))?;
    }
    if let (Some(component), Some(plugin)) = (&component, granted.plugins.get(&args.plugin)) {
        for (kind, name) in policy(plugin, component).unused_grants() {
            terminal.note(&format!(
                "note: plugin `{}` does not request {} `{name}`; the grant has no effect",
                plugin.name,
                kind.word()
            ));
        }
    }
    Ok(Exit::Done)
}
