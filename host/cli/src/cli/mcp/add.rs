//! `opcell mcp add`: a server that a registry publishes becomes one of the project.

use super::accepted;
use crate::cli::{Exit, Failure, Global, Terminal, host};
use clap::Args;
use opcell::{
    config::{
        Config, FILE_NAME, MAX_BYTES,
        edit::{self, NewServer},
        lock::write_whole,
    },
    confinement,
    consent::{Reach, Request},
    places::Places,
    published::{
        CACHE, GivenValues, Launch, MAX_DOCUMENT_BYTES, PackageManager, Published, SITE, Variable, program_of,
        requirements_of, starter_of,
    },
    remedy::shell_word,
    report::printable,
};
use opcell_ir::Diagnostic;
use opcell_types::{
    Digest,
    files::{Folder, Readers, read_text_bounded},
    suggest::hint,
    text::one_line,
};
use serde_json::json;
use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};
use tokio::time::timeout;

/// The registry that names are looked up in.
const REGISTRY: &str = "https://registry.modelcontextprotocol.io";

/// The arguments with which npm installs a package, and the time that it may take.
const INSTALL: [&str; 8] =
    ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--save-exact", "--prefix", ".", "--"];
/// The same of pip, which runs nothing of a package if it takes wheels alone.
const INSTALL_PYTHON: [&str; 12] = [
    "-m",
    "pip",
    "install",
    "--only-binary",
    ":all:",
    "--no-compile",
    "--no-input",
    "--disable-pip-version-check",
    "--target",
    SITE,
    "--report",
    REPORT,
];

/// The file in which pip says what it installed; it is removed after that.
const REPORT: &str = ".report.json";

/// The file with the version and the digest of each package of PyPI.
const REQUIREMENTS: &str = "requirements.txt";

/// The file that starts a package of PyPI.
const STARTER: &str = "opcell_start.py";

/// A program for Python that prints where the interpreter is. What `PATH` finds first may be a script that chooses one,
/// which a confined server cannot read.
const WHERE: &str = "import os, sys; print(os.path.realpath(sys.executable))";
const WHERE_TIME: Duration = Duration::from_secs(30);

/// Folders of the system, which a confined server reads.
const SYSTEM: [&str; 3] = ["/usr", "/bin", "/opt"];

const INSTALL_TIME: Duration = Duration::from_secs(300);

/// The version of a server that a registry is asked for where none is named.
const LATEST: &str = "latest";

/// The file of a server's folder that holds what its publisher said.
const DOCUMENT: &str = "server.json";

#[derive(Debug, Args)]
pub struct AddArgs {
    /// A name in the registry, such as `io.github.user/weather` or `io.github.user/weather@1.0.2`; the address of a
    /// `server.json`; or such a file.
    #[arg(value_name = "NAME|URL|FILE")]
    source: String,
    /// Name of the server in the project. Defaults to the last part of its name.
    #[arg(long)]
    name: Option<String>,
    /// Give a value that the server asks for (repeatable).
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
    /// Run it unconfined, for this reason.
    #[arg(long, value_name = "REASON")]
    no_confine: Option<String>,
    /// The registry in which a name is looked up.
    #[arg(long, value_name = "URL", default_value = REGISTRY)]
    registry: String,
    /// Let the address of the document or of the registry be on this machine or in a private network.
    #[arg(long)]
    private: bool,
    /// Add it without asking.
    #[arg(long)]
    yes: bool,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| "expected NAME=VALUE".to_owned())?;
    Ok((name.to_owned(), value.to_owned()))
}

fn wrong(message: impl Into<String>) -> Failure {
    Diagnostic::error("invalid-server", message.into()).into()
}

/// A server that is about to be added.
struct Plan {
    name: String,
    published: Published,
    launch: Launch,
    server: NewServer,
    /// Why it is not confined.
    unconfined: Option<String>,
}

pub(super) async fn add(global: &Global, args: &AddArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    if global.locked {
        return Err(Diagnostic::error("lock-frozen", "`--locked` leaves opcell.lock as it is").into());
    }
    let config = global.proposed()?;
    let file = config.file.clone().unwrap_or_else(|| config.root.join(FILE_NAME));
    let before = global.consented(&config)?;
    let (document, asked) = document(args).await?;
    let mut plan = plan(args, &document)?;
    if let Some((name, version)) = asked {
        answers(&plan.published, &name, &version)?;
    }
    if let Launch::Program { manager: PackageManager::Pip, command, .. } = &mut plan.launch
        && let Some(interpreter) = interpreter().await?
    {
        for command in [command, &mut plan.server.command] {
            if let Some(program) = command.first_mut() {
                program.clone_from(&interpreter);
            }
        }
    }
    if config.servers.contains_key(&plan.name) {
        let message = format!("the project has an MCP server `{}` already", plan.name);
        return Err(Diagnostic::error("server-exists", message).help("choose another name with `--name`").into());
    }
    let shown = shown(&plan, &document);
    let agreed = match (args.yes, terminal.is_interactive()) {
        (true, _) => {
            terminal.note(&shown);
            true
        }
        (false, true) => terminal.confirms(&shown, "Add it?")?,
        (false, false) => {
            terminal.note(&shown);
            let message = format!("the server `{}` is not added without your consent", plan.name);
            let help = "read what it starts and asks for, then add `--yes`";
            return Err(Diagnostic::error("consent-needed", message).help(help).into());
        }
    };
    if !agreed {
        terminal.note("nothing was changed");
        return Ok(Exit::Done);
    }
    if let Launch::Program { manager, install, .. } = &plan.launch {
        let below = folder(&plan.name);
        let folder = config.root.join(&below);
        // A package manager takes what it finds there for what it would fetch.
        if folder.symlink_metadata().is_ok() {
            let message = format!("{} exists, and what is in it could run as part of the server", below.display());
            let help = "look at it and delete it, or choose another name with `--name`";
            return Err(Diagnostic::error("server-exists", message).help(help).into());
        }
        prepare(&folder, &document)?;
        let file = match manager {
            PackageManager::Pip => installed_by_pip(&folder, plan.server.command.first(), install).await,
            _ => installed_by_npm(&folder, install).await,
        };
        if file.is_err() {
            // It was made just now, and is in the way of the next attempt.
            let _ = std::fs::remove_dir_all(&folder);
        }
        plan.server.command.insert(1, file?);
    }
    // The user may have written in the file since.
    let text = match read_text_bounded(&file, MAX_BYTES) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error.into()),
    };
    let text = edit::add_server(&text, &plan.name, &plan.server)
        .map_err(|error| Diagnostic::error("project-file-invalid", format!("{}: {error}", file.display())))?;
    // What would be written must mean something before anything is written.
    let mut new = Config::parse(&file.display().to_string(), text.clone(), &config.root)?;
    let target = file.canonicalize().unwrap_or_else(|_| file.clone());
    write_whole(&target, &text, Readers::of(&target))?;
    terminal.line(&printable(&format!("added [mcp.{}] to {}", plan.name, file.display())))?;
    if let Some(before) = before {
        new.file = Some(file.clone());
        // What was just shown, and nothing else that has changed since.
        global.consent(&new, &before, |request| is_of(request, &plan.name), terminal)?;
    }
    pin(global, &plan.name, terminal).await
}

/// Returns `true` for a request of this server.
fn is_of(request: &Request, name: &str) -> bool {
    let what = &request.what;
    match request.reach {
        Reach::Programs => [',', ';'].iter().any(|end| what.contains(&format!("(MCP server {name}{end}"))),
        Reach::Environment => {
            what.ends_with(&format!("to the MCP server {name}"))
                || what.starts_with(&format!("MCP server {name} sends "))
        }
        Reach::Hosts => what.starts_with(&format!("MCP server {name} requests ")),
        _ => false,
    }
}

/// Starts the server for the first time, and takes its tools down in the lock.
async fn pin(global: &Global, name: &str, terminal: &Terminal) -> Result<Exit, Failure> {
    let config = match global.unasked() {
        Ok(config) => config,
        Err(_) => {
            terminal.note(&format!(
                "the project waits for your consent (`opcell trust`); then pin its tools with `opcell mcp update {name}`"
            ));
            return Ok(Exit::Done);
        }
    };
    let servers = host(config.clone(), terminal).await?.mcp_servers().await;
    let Some(server) = servers.iter().find(|server| server.name == name) else { return Ok(Exit::Done) };
    if let Some(problem) = &server.problem {
        let finding = Diagnostic::error("mcp-not-started", problem.clone());
        return Err(finding.help(format!("once it starts, pin its tools with `opcell mcp update {name}`")).into());
    }
    let tools = accepted::texts_of(server);
    let lock = crate::cli::missing::lock(&config)?;
    let count = tools.len();
    lock.accept_server(name, tools, &Places::of_user())?;
    if terminal.json {
        terminal.json(&json!({"server": name, "tools": count}))?;
    } else {
        let tools = if count == 1 { "1 tool".to_owned() } else { format!("{count} tools") };
        terminal.line(&format!("pinned {tools} of {name} in opcell.lock; bind them under [tools]"))?;
    }
    Ok(Exit::Done)
}

fn plan(args: &AddArgs, document: &str) -> Result<Plan, Failure> {
    let published =
        Published::read(document).map_err(|why| wrong(format!("{}: {why}", one_line(&args.source, 200))))?;
    let short = published.name.rsplit('/').next().unwrap_or_default().replace('.', "-");
    let name = args.name.clone().unwrap_or(short);
    let is_name = !name.is_empty()
        && name.len() <= 64
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if !is_name {
        let message = format!("`{}` is not a name of a server", printable(&name));
        let help = "a name begins with a letter or digit, and has up to 64 letters, digits, `_` and `-`; give one with `--name`";
        return Err(Diagnostic::error("invalid-server", message).help(help).into());
    }
    let mut given = GivenValues::new(args.set.iter().cloned().collect());
    let launch = match published.launch(&mut given) {
        Ok(launch) => launch,
        Err(problems) => {
            let message = format!("{} cannot be added:\n{}", published.name, problems.join("\n"));
            let finding = Diagnostic::error("invalid-server", message);
            let values: Vec<String> =
                given.missing().iter().map(|name| format!("--set {}", shell_word(&format!("{name}=VALUE")))).collect();
            return Err(match values.is_empty() {
                true => finding,
                false => finding.help(format!("give what it needs: `{}`", values.join(" "))),
            }
            .into());
        }
    };
    if let Some(unused) = given.unused().first() {
        let meant = hint(unused, given.asked());
        return Err(wrong(format!("the server asks for no value `{}`{meant}", printable(unused))));
    }
    let (server, unconfined) = settings(args, &name, &launch);
    Ok(Plan { name, published, launch, server, unconfined })
}

/// The folder of a server in its project.
fn folder(name: &str) -> PathBuf {
    Path::new("mcp").join(name)
}

fn settings(args: &AddArgs, name: &str, launch: &Launch) -> (NewServer, Option<String>) {
    match launch {
        Launch::Remote { url, credential } => {
            let credential = credential.clone().map(|known| (known.header, known.prefix, known.variable));
            (NewServer { url: Some(url.clone()), credential, ..NewServer::default() }, None)
        }
        Launch::Program { command, variables, .. } => {
            let unconfined = args.no_confine.clone().or_else(|| confinement().err());
            let folder = folder(name);
            let server = NewServer {
                command: command.clone(),
                directory: Some(folder.display().to_string()),
                env: variables.iter().map(|variable| variable.name.clone()).collect(),
                write: vec![folder.join(CACHE).display().to_string()],
                confine: unconfined.is_none(),
                remark: unconfined.clone(),
                ..NewServer::default()
            };
            (server, unconfined)
        }
    }
}

/// The folder of a server: what its publisher said, and a place for its package manager that a checkout has as well.
fn prepare(folder: &Path, document: &str) -> std::io::Result<()> {
    let folder = Folder::open_or_make(folder, Readers::Shared)?;
    let cache = folder.make_below(Path::new(CACHE), Readers::Shared)?;
    cache.replace(".gitignore", b"*\n!.gitignore\n", Readers::Shared)?;
    folder.replace(".gitignore", format!("node_modules\n{SITE}\n").as_bytes(), Readers::Shared)?;
    folder.replace(DOCUMENT, document.as_bytes(), Readers::Shared)
}

/// Runs a program to its end, and returns what it printed.
///
/// # Errors
/// With the end of what it wrote to its standard error, or the reason why it did not end.
async fn output_of(program: &str, arguments: &[&str], folder: Option<&Path>, time: Duration) -> Result<String, String> {
    let mut command = tokio::process::Command::new(program);
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    if let Some(folder) = folder {
        command.current_dir(folder);
    }
    match timeout(time, command.output()).await {
        Ok(Ok(output)) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        Ok(Ok(output)) => Err(one_line(String::from_utf8_lossy(&output.stderr).trim(), 500)),
        Ok(Err(error)) => Err(one_line(&error.to_string(), 500)),
        Err(_) => Err(format!("it did not end within {} s", time.as_secs())),
    }
}

/// Runs a package manager in the folder of a server. Nothing of the package runs.
async fn install(program: &str, arguments: &[&str], package: &str, folder: &Path, shown: &str) -> Result<(), Failure> {
    let arguments: Vec<&str> = arguments.iter().copied().chain([package]).collect();
    let installed = output_of(program, &arguments, Some(folder), INSTALL_TIME).await;
    let failed = |why| Diagnostic::error("mcp-not-started", format!("`{shown} install {package}` failed: {why}"));
    installed.map(drop).map_err(|why| failed(why).into())
}

/// Installs a package of npm in the folder of its server, without its scripts, and returns the file that starts it.
async fn installed_by_npm(folder: &Path, package: &str) -> Result<String, Failure> {
    install("npm", &INSTALL, package, folder, "npm").await?;
    program_of(folder, package).map_err(wrong)
}

/// The interpreter that `python3` stands for, where a confined server cannot read what `PATH` finds; nothing where it
/// can.
async fn interpreter() -> Result<Option<String>, Failure> {
    let failed = |why: String| {
        let finding = Diagnostic::error("mcp-not-started", format!("`python3` cannot be used: {why}"));
        finding.help("install Python 3 with pip: the server is a package of PyPI")
    };
    let found = output_of("python3", &["-c", WHERE], None, WHERE_TIME).await.map_err(failed)?.trim().to_owned();
    let is_of_system = |path: &Path| SYSTEM.iter().any(|folder| path.starts_with(folder));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let first = std::env::split_paths(&path).map(|folder| folder.join("python3")).find(|file| file.is_file());
    // A shell script that chooses an interpreter of the system needs what it reads as well.
    let is_direct = first
        .is_some_and(|first| is_of_system(&first) && first.canonicalize().is_ok_and(|real| real == Path::new(&found)));
    Ok((!is_direct).then_some(found))
}

/// Installs a package of PyPI in the folder of its server, from wheels alone, writes what stands for exactly its files,
/// and returns the file that starts it.
async fn installed_by_pip(folder: &Path, python: Option<&String>, package: &str) -> Result<String, Failure> {
    install(python.map_or("python3", String::as_str), &INSTALL_PYTHON, package, folder, "pip").await?;
    let report = folder.join(REPORT);
    let requirements = requirements_of(&report).map_err(wrong)?;
    std::fs::remove_file(&report)?;
    let starter = starter_of(&folder.join(SITE), package).map_err(wrong)?;
    let folder = Folder::open_or_make(folder, Readers::Shared)?;
    folder.replace(REQUIREMENTS, requirements.as_bytes(), Readers::Shared)?;
    folder.replace(STARTER, starter.as_bytes(), Readers::Shared)?;
    Ok(STARTER.to_owned())
}

/// Everything that a person decides by.
fn shown(plan: &Plan, document: &str) -> String {
    let Plan { name, published, launch, unconfined, .. } = plan;
    let mut lines = vec![format!("{} {}: {}", published.name, published.version, published.description)];
    lines.extend(published.repository.as_ref().map(|url| format!("  source: {url}")));
    lines.push(format!("  description: {}", Digest::of_hash(blake3::hash(document.as_bytes()))));
    match launch {
        Launch::Program { manager, install, command, package, variables } => {
            lines.push(match manager {
                PackageManager::Pip => {
                    let python = command.first().map_or("python3", String::as_str);
                    format!("  installs: {python} {} {install}", INSTALL_PYTHON.join(" "))
                }
                _ => format!("  installs: npm {} {install}", INSTALL.join(" ")),
            });
            let words: Vec<String> = command.iter().map(|word| opcell::consent::shell(Path::new(word))).collect();
            let (first, rest) = words.split_first().map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
            let rest: String = rest.iter().map(|word| format!(" {word}")).collect();
            lines.push(format!("  starts: {first} PROGRAM OF THE PACKAGE{rest}"));
            lines.push(format!("  package: {package}, from its registry, in {}", folder(name).display()));
            lines.push(match unconfined {
                None => {
                    "  confined: it reads the system's programs and its folder, writes its cache, and has the network"
                        .to_owned()
                }
                Some(why) => format!("  NOT confined, with all of your rights: {why}"),
            });
            lines.extend(variables.iter().map(asks));
        }
        Launch::Remote { url, credential } => {
            lines.push(format!("  reaches: {url}"));
            lines.extend(
                credential.as_ref().map(|known| {
                    format!("  sends: the header `{}` with the secret in ${}", known.header, known.variable)
                }),
            );
        }
    }
    lines.join("\n")
}

fn asks(variable: &Variable) -> String {
    let mut words = vec![if variable.required { "requires" } else { "may use" }.to_owned()];
    words.push(format!("${}", variable.name));
    if variable.secret {
        words.push("(a secret)".to_owned());
    }
    let about = if variable.description.is_empty() { String::new() } else { format!(": {}", variable.description) };
    let expected = variable.expected.as_ref().map(|value| format!("; its publisher wants `{value}`"));
    let is_set = std::env::var_os(&variable.name).is_some();
    let missing = if variable.required && !is_set { "; it is not set here" } else { "" };
    format!("  {}{about}{}{missing}", words.join(" "), expected.unwrap_or_default())
}

/// Refuses the description of another server, or of another version, than the registry was asked for.
fn answers(published: &Published, name: &str, version: &str) -> Result<(), Failure> {
    if published.name == name && (version == LATEST || published.version == version) {
        return Ok(());
    }
    let found = format!("{} {}", published.name, published.version);
    Err(wrong(format!("the registry was asked for {name} {version}, and answers with {found}")))
}

/// The document that an argument names; of a registry, also the name and the version that it was asked for.
async fn document(args: &AddArgs) -> Result<(String, Option<(String, String)>), Failure> {
    let source = &args.source;
    if source.starts_with("https://") || source.starts_with("http://") {
        return Ok((fetched(source, args.private).await?, None));
    }
    let path = Path::new(source);
    if path.is_file() || source.ends_with(".json") {
        return read_text_bounded(path, MAX_DOCUMENT_BYTES as u64)
            .map(|text| (text, None))
            .map_err(|error| wrong(format!("`{}` cannot be read: {error}", path.display())));
    }
    let (name, version) = source.split_once('@').unwrap_or((source, LATEST));
    let is_plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '+'));
    match name.split_once('/') {
        Some((space, short)) if is_plain(space) && is_plain(short) && is_plain(version) => {
            let base = args.registry.trim_end_matches('/');
            let url = format!("{base}/v0.1/servers/{space}%2F{short}/versions/{version}");
            Ok((fetched(&url, args.private).await?, Some((name.to_owned(), version.to_owned()))))
        }
        _ => {
            let message =
                format!("`{}` is neither a name in a registry, nor an address, nor a file", printable(source));
            let help = "such as `io.github.user/weather`, `https://example.com/server.json` or `server.json`";
            Err(Diagnostic::error("invalid-source", message).help(help).into())
        }
    }
}

async fn fetched(url: &str, private: bool) -> Result<String, Failure> {
    let read = opcell::published::fetch(url, private).await;
    read.map_err(|why| wrong(format!("`{}` cannot be read: {why}", one_line(url, 200))))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test")]
mod tests {
    use super::*;

    #[test]
    fn a_registry_that_answers_with_another_server_is_not_believed() {
        let document = r#"{"name": "io.github.user/weather", "version": "1.0.2", "description": "Weather."}"#;
        let published = Published::read(document).unwrap();
        for (name, version, is_taken) in [
            ("io.github.user/weather", "1.0.2", true),
            ("io.github.user/weather", LATEST, true),
            ("io.github.user/weather", "1.0.1", false),
            ("io.github.user/whether", LATEST, false),
            ("io.github.User/weather", LATEST, false),
        ] {
            assert_eq!(answers(&published, name, version).is_ok(), is_taken, "{name} {version}");
        }
    }
}
