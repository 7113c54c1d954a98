//! `opcell doctor`: what Opcell needs of a machine, what is there, and what to do about the rest.

use super::{Exit, Failure, Global, Terminal, consent, units::hanging};
use opcell::places::Places;
use opcell_author::{Language, toolchain};
use opcell_sandbox::{CompileMode, Sandbox, SandboxConfig};
use serde::Serialize;
use serde_json::json;
use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum State {
    Ok,
    /// Opcell works, with less than it could have.
    Degraded,
    /// Something does not work.
    Broken,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    state: State,
    /// The finding.
    found: String,
    /// The remedy, where something is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

fn fine(name: &'static str, found: impl Into<String>) -> Check {
    Check { name, state: State::Ok, found: found.into(), remedy: None }
}

fn wrong(name: &'static str, state: State, found: impl Into<String>, remedy: impl Into<String>) -> Check {
    Check { name, state, found: found.into(), remedy: Some(remedy.into()) }
}

pub fn doctor(global: &Global, terminal: &Terminal) -> Result<Exit, Failure> {
    let places = Places::of_user();
    let mut checks = vec![platform(), clock(), landlock(), seccomp(), sandbox(), descriptors()];
    checks.extend([cache(&places), state(&places), fetched(&places), project(global)]);
    checks.extend(toolchains());
    let broken = checks.iter().any(|check| check.state == State::Broken);
    if terminal.json {
        terminal.json(&json!({"ok": !broken, "checks": checks}))?;
        return Ok(exit(broken));
    }
    let width = checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    for check in &checks {
        let state = match check.state {
            State::Ok => "ok",
            State::Degraded => "degraded",
            State::Broken => "broken",
        };
        // A terminal breaks lines between words; what reads a pipe gets each line whole.
        let columns = terminal.width().unwrap_or(usize::MAX);
        let first = format!("{state:8}  {:width$}  ", check.name);
        let remedy = check.remedy.as_ref().map(|remedy| (format!("          {:width$}  -> ", ""), remedy));
        for (first, text) in [Some((first, &check.found)), remedy].into_iter().flatten() {
            for line in hanging(&first, &opcell::report::printable(text), columns).lines() {
                terminal.line(line)?;
            }
        }
    }
    Ok(exit(broken))
}

fn exit(broken: bool) -> Exit {
    if broken { Exit::InputWrong } else { Exit::Done }
}

fn platform() -> Check {
    let found = format!("{} on {}", std::env::consts::ARCH, std::env::consts::OS);
    if cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return fine("platform", found);
    }
    wrong(
        "platform",
        State::Degraded,
        found,
        "the supported platform is x86_64 on linux; here most of it works, untested",
    )
}

/// A clock that is years off breaks certificates, schedules and the order of runs.
fn clock() -> Check {
    const RELEASED: Duration = Duration::from_secs(1_760_000_000);
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(now) if now > RELEASED => fine("clock", jiff::Timestamp::now().strftime("%F %T UTC").to_string()),
        _ => wrong(
            "clock",
            State::Broken,
            "the clock is before this program was made",
            "set it: timedatectl set-ntp true",
        ),
    }
}

/// The bounds of `confine = true` on this kernel.
fn landlock() -> Check {
    match opcell::confinement() {
        Ok(held) => match held.gaps() {
            None => fine(
                "landlock",
                format!(
                    "version {}: the kernel keeps confined MCP servers from {}",
                    held.version,
                    held.holds.join(", ")
                ),
            ),
            Some(gaps) => wrong(
                "landlock",
                State::Degraded,
                format!("version {}: {gaps} of MCP servers with `confine = true`", held.version),
                "boot a newer kernel",
            ),
        },
        Err(why) => wrong(
            "landlock",
            State::Degraded,
            format!("{why}: MCP servers with `confine = true` do not start"),
            "boot a kernel from 5.13 on with `lsm=landlock,…`",
        ),
    }
}

fn seccomp() -> Check {
    match fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail") {
        Ok(actions) if actions.contains("errno") => fine("seccomp", "the kernel filters system calls"),
        _ => wrong(
            "seccomp",
            State::Degraded,
            "the kernel filters no system calls",
            "boot a kernel with CONFIG_SECCOMP_FILTER",
        ),
    }
}

/// Checks whether cells get their memory from pools, or one by one.
fn sandbox() -> Check {
    let limit = rustix::process::getrlimit(rustix::process::Resource::As).current;
    let made = CompileMode::find().and_then(|mode| Sandbox::new(SandboxConfig::new(mode)));
    match made {
        Err(error) => {
            wrong("sandbox", State::Broken, error.to_string(), "report it with the output of `opcell doctor --json`")
        }
        Ok(sandbox) => match (sandbox.warning(), limit) {
            (Some(warning), Some(bytes)) => {
                let found = format!("{warning} (address space: {} GiB)", bytes >> 30);
                wrong("sandbox", State::Degraded, found, "raise the limit: ulimit -v unlimited")
            }
            (Some(warning), None) => wrong("sandbox", State::Degraded, warning, "give the process more address space"),
            (None, _) => fine("sandbox", "cells get their memory from pools"),
        },
    }
}

fn descriptors() -> Check {
    let limits = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let most = limits.maximum.unwrap_or(u64::MAX);
    let found =
        if most == u64::MAX { "open files are not limited".to_owned() } else { format!("up to {most} open files") };
    if most >= 4_096 {
        return fine("descriptors", found);
    }
    wrong("descriptors", State::Degraded, found, "many cells and runs at once need more: ulimit -Hn 65536")
}

fn cache(places: &Places) -> Check {
    let Some(folder) = &places.cache else {
        let remedy = "set HOME, XDG_CACHE_HOME or OPCELL_CACHE to an absolute path";
        return wrong("cache", State::Degraded, "no place for compiled plugins: each start compiles them", remedy);
    };
    private_folder("cache", folder, "compiled plugins")
}

fn state(places: &Places) -> Check {
    let Some(folder) = &places.state else {
        let remedy = "set HOME or XDG_STATE_HOME to an absolute path";
        return wrong("state", State::Degraded, "no place for keys and consent: every project asks each time", remedy);
    };
    private_folder("state", folder, "keys and consent")
}

fn fetched(places: &Places) -> Check {
    let Some(folder) = &places.data else {
        let remedy = "set HOME or XDG_DATA_HOME to an absolute path";
        return wrong("plugins", State::Degraded, "no place for plugins of registries", remedy);
    };
    let stored = fs::read_dir(folder.join("plugins")).map(Iterator::count).unwrap_or(0);
    fine("plugins", format!("{stored} fetched, in {}", folder.join("plugins").display()))
}

/// A folder of this user that no one else can write, or that can still be made.
fn private_folder(name: &'static str, folder: &Path, what: &str) -> Check {
    let nearest = folder.ancestors().find(|path| path.exists()).unwrap_or(folder);
    let shown = folder.display();
    let Ok(about) = nearest.metadata() else {
        return wrong(
            name,
            State::Degraded,
            format!("{shown} cannot be read"),
            "check the permissions of the folders above it",
        );
    };
    let own = about.uid() == rustix::process::geteuid().as_raw();
    let writable = rustix::fs::access(nearest, rustix::fs::Access::WRITE_OK).is_ok();
    if !writable {
        return wrong(
            name,
            State::Degraded,
            format!("{shown} cannot be written"),
            format!("make it writable: {what} go there"),
        );
    }
    if nearest == folder && (!own || about.permissions().mode() & 0o022 != 0) {
        let remedy = format!("make it private: chmod 700 {shown}");
        return wrong(name, State::Broken, format!("{shown} could be changed by others"), remedy);
    }
    let free =
        rustix::fs::statvfs(nearest).map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) >> 20).unwrap_or(u64::MAX);
    if free < 512 {
        return wrong(name, State::Degraded, format!("{shown}: {free} MiB are free"), "free some space");
    }
    fine(name, format!("{shown} ({what})"))
}

fn project(global: &Global) -> Check {
    let config = match global.written() {
        Ok(Some(config)) => config,
        Ok(None) => return fine("project", "there is none here"),
        Err(Failure::Input(rejected)) => {
            let first = rejected.diagnostics.first().map(|finding| finding.message.clone()).unwrap_or_default();
            return wrong("project", State::Broken, first, "`opcell plugin list` shows everything that is wrong");
        }
        Err(Failure::Other(error)) => {
            return wrong("project", State::Broken, error.to_string(), "correct what the system says");
        }
    };
    let file = config.file.as_deref().unwrap_or(Path::new("opcell.toml")).display().to_string();
    match consent::Asked::of(global, &config) {
        Ok(asked) if asked.is_allowed() => fine("project", file),
        Ok(_) => {
            let found = format!("{file} asks for access outside its folder, and was not allowed it");
            wrong("project", State::Degraded, found, "look at it with `opcell trust --show`")
        }
        Err(_) => wrong(
            "project",
            State::Broken,
            format!("{file} asks for what a policy forbids"),
            "see `opcell trust --show`",
        ),
    }
}

/// Checks the needs of `opcell plugin build`, by language. Running plugins takes none of it.
fn toolchains() -> Vec<Check> {
    let languages = [
        ("rust plugins", Language::Rust, "cargo"),
        ("js plugins", Language::Javascript, "node"),
        ("python plugins", Language::Python, "python3"),
        ("c plugins", Language::C, "clang"),
    ];
    // Not in this folder: a checkout may name a compiler of its own, and nothing of it runs here.
    let check = |(name, language, program)| match toolchain::missing(language, Path::new("/")) {
        Some(missing) => {
            let found = format!("{} is not installed; only building needs it", missing.tool);
            wrong(name, State::Degraded, found, missing.install)
        }
        None => fine(name, toolchain::on_path(program).map_or_else(String::new, |path| path.display().to_string())),
    };
    languages.into_iter().map(check).collect()
}
