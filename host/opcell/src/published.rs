//! Servers as registries publish them: `server.json`, the format of the official registry of MCP.
//!
//! A document is untrusted: it names a program that a stranger wrote. Nothing here starts it. What is read is bounded
//! and printable, the version of a package is exact, and what cannot be kept exactly as the document says is refused with
//! a sentence rather than left out.

use crate::http::{FetchLimits, HttpClient, HttpRule, Method};
use opcell_types::{
    TouchLog, Value,
    files::read_text_bounded,
    text::{one_line, printable},
};
use serde::Deserialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Component, Path},
};

/// Bytes of a document.
pub const MAX_DOCUMENT_BYTES: usize = 256 << 10;

/// Entries of one list of a document.
const MAX_ENTRIES: usize = 64;

/// Bytes of a text that becomes an argument or an address.
const VALUE_BYTES: usize = 4 << 10;

/// Bytes of a text for people.
const SHOWN_BYTES: usize = 300;

/// The folder of a server, in its own folder, that it writes to, as its package manager does.
pub const CACHE: &str = ".cache";

/// A server as its publisher describes it.
#[derive(Debug, Clone)]
pub struct Published {
    /// Its name in the registry, such as `io.github.user/weather`.
    pub name: String,
    /// One sentence, printable.
    pub description: String,
    /// The version of the description.
    pub version: String,
    /// The address of its source, if it names one.
    pub repository: Option<String>,
    packages: Vec<PackageText>,
    remotes: Vec<RemoteText>,
}

/// A way to reach a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Launch {
    /// A program of this machine.
    Program {
        /// The package manager that installs the package in the folder of the server when it is added: what starts the
        /// package then comes after the first word of the command.
        manager: PackageManager,
        /// The package for its manager, such as `NAME@VERSION`.
        install: String,
        /// The program and its arguments, for the folder of the server.
        command: Vec<String>,
        /// The package with its version, such as `npm weather@1.2.3`.
        package: String,
        /// Variables that it is given from the environment.
        variables: Vec<Variable>,
    },
    /// An address.
    Remote {
        /// The URL.
        url: String,
        /// The header that carries a secret.
        credential: Option<RemoteCredential>,
    },
}

/// The program that installs a package. It runs once, when the server is added: a server that fetched its package at
/// each start would need the network and could not be confined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PackageManager {
    /// `npm`, for packages of npmjs.org.
    Npm,
    /// `pip`, for packages of PyPI.
    Pip,
}

impl PackageManager {
    /// The name of the program.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Npm => "npm",
            Self::Pip => "pip",
        }
    }

    /// The program that a document may name to start such a package, which is not used.
    fn hint(self) -> &'static str {
        match self {
            Self::Npm => "npx",
            Self::Pip => "uvx",
        }
    }
}

/// A variable of the environment that a server asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// The publisher's words, printable.
    pub description: String,
    /// `true` if the server does not work without it.
    pub required: bool,
    /// `true` if it is a secret.
    pub secret: bool,
    /// The value that the publisher wants, if it is not the user's.
    pub expected: Option<String>,
}

/// A header whose secret comes from the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteCredential {
    /// The header's name, in lower case.
    pub header: String,
    /// The text before the secret.
    pub prefix: String,
    /// The variable of the environment.
    pub variable: String,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Document {
    /// An entry of a registry has the server's description inside.
    Entry {
        server: DetailText,
    },
    Detail(DetailText),
}

#[derive(Debug, Deserialize)]
struct DetailText {
    name: String,
    version: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    packages: Vec<PackageText>,
    #[serde(default)]
    remotes: Vec<RemoteText>,
    repository: Option<RepositoryText>,
}

#[derive(Debug, Deserialize)]
struct RepositoryText {
    url: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PackageText {
    registry_type: String,
    registry_base_url: Option<String>,
    identifier: String,
    version: Option<String>,
    file_sha256: Option<String>,
    runtime_hint: Option<String>,
    transport: TransportText,
    #[serde(default)]
    runtime_arguments: Vec<ArgumentText>,
    #[serde(default)]
    package_arguments: Vec<ArgumentText>,
    #[serde(default)]
    environment_variables: Vec<InputText>,
}

#[derive(Debug, Clone, Deserialize)]
struct TransportText {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Debug, Clone, Deserialize)]
struct RemoteText {
    #[serde(rename = "type")]
    kind: String,
    url: String,
    #[serde(default)]
    headers: Vec<InputText>,
    #[serde(default)]
    variables: BTreeMap<String, InputText>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ArgumentText {
    #[serde(rename = "type")]
    kind: String,
    value_hint: Option<String>,
    #[serde(flatten)]
    input: InputText,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct InputText {
    name: Option<String>,
    description: Option<String>,
    value: Option<String>,
    default: Option<String>,
    is_required: bool,
    is_secret: bool,
    choices: Vec<String>,
    variables: BTreeMap<String, InputText>,
}

/// Values that the user gives, by the names that the document has for them.
#[derive(Debug, Default)]
pub struct GivenValues {
    given: BTreeMap<String, String>,
    asked: BTreeSet<String>,
    missing: Vec<String>,
}

impl GivenValues {
    /// These values.
    #[must_use]
    pub fn new(given: BTreeMap<String, String>) -> Self {
        Self { given, ..Self::default() }
    }

    fn take(&mut self, name: &str) -> Option<String> {
        self.asked.insert(name.to_owned());
        self.given.get(name).cloned()
    }

    /// The names of values that nothing asked for.
    #[must_use]
    pub fn unused(&self) -> Vec<&str> {
        self.given.keys().filter(|name| !self.asked.contains(*name)).map(String::as_str).collect()
    }

    /// The names of all values that were asked for.
    pub fn asked(&self) -> impl Iterator<Item = &str> {
        self.asked.iter().map(String::as_str)
    }

    /// The names of values that are required and have not been given, printable.
    #[must_use]
    pub fn missing(&self) -> &[String] {
        &self.missing
    }
}

impl Published {
    /// Reads a `server.json`, or an entry of a registry.
    ///
    /// # Errors
    /// With a sentence about the document.
    pub fn read(text: &str) -> Result<Self, String> {
        if text.len() > MAX_DOCUMENT_BYTES {
            return Err(format!("it has more than {MAX_DOCUMENT_BYTES} bytes"));
        }
        let json: serde_json::Value = serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
        let detail = match Document::deserialize(&json) {
            Ok(Document::Entry { server } | Document::Detail(server)) => server,
            // An error of either form says nothing: one of the description does.
            Err(_) => {
                let inner = json.get("server").unwrap_or(&json);
                DetailText::deserialize(inner).map_err(|error| {
                    format!("it is not a server.json: {}", one_line(&error.to_string(), SHOWN_BYTES))
                })?
            }
        };
        let is_name = detail.name.split_once('/').is_some_and(|(space, name)| {
            let is_plain = |text: &str| {
                !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
            };
            is_plain(space) && is_plain(name)
        });
        if !is_name || detail.name.len() > 200 {
            let name = one_line(&detail.name, SHOWN_BYTES);
            return Err(format!("its name `{name}` is not one such as `io.github.user/weather`"));
        }
        let lists = detail.packages.iter().flat_map(|package| {
            [package.runtime_arguments.len(), package.package_arguments.len(), package.environment_variables.len()]
        });
        let longest = lists.chain([detail.packages.len(), detail.remotes.len()]).max().unwrap_or_default();
        if longest > MAX_ENTRIES {
            return Err(format!("one of its lists has {longest} entries; at most {MAX_ENTRIES} are read"));
        }
        Ok(Self {
            name: detail.name,
            description: printable(&detail.description, SHOWN_BYTES),
            version: one_line(&detail.version, SHOWN_BYTES),
            repository: detail.repository.and_then(|known| known.url).map(|url| one_line(&url, SHOWN_BYTES)),
            packages: detail.packages,
            remotes: detail.remotes,
        })
    }

    /// The first way to reach the server that can be kept: a package before an address.
    ///
    /// # Errors
    /// With a sentence for each way that cannot be.
    pub fn launch(&self, given: &mut GivenValues) -> Result<Launch, Vec<String>> {
        let mut problems = Vec::new();
        for package in &self.packages {
            match program(package, given) {
                Ok(launch) => return Ok(launch),
                Err(why) => problems.push(format!("package `{}`: {why}", one_line(&package.identifier, SHOWN_BYTES))),
            }
        }
        for remote in &self.remotes {
            match address(remote, given) {
                Ok(launch) => return Ok(launch),
                Err(why) => problems.push(format!("address `{}`: {why}", one_line(&remote.url, SHOWN_BYTES))),
            }
        }
        if problems.is_empty() {
            problems.push("it names neither a package nor an address".to_owned());
        }
        Err(problems)
    }
}

/// Fetches a document. `private`: its address may be on this machine or in a private network, and without TLS.
///
/// # Errors
/// With the end of a sentence about the address.
pub async fn fetch(url: &str, private: bool) -> Result<String, String> {
    let parsed = url::Url::parse(url).map_err(|error| error.to_string())?;
    if parsed.scheme() != "https" && !private {
        return Err("it is not an address of `https`, so that anyone on the way could change it".to_owned());
    }
    let origin = parsed.origin().ascii_serialization().parse();
    let origin = origin.map_err(|error: crate::http::rule::InvalidOrigin| error.to_string())?;
    let rule = HttpRule { private, ..HttpRule::new(vec![origin], vec![Method::GET]) };
    let limits = FetchLimits { response_bytes: MAX_DOCUMENT_BYTES as u64, ..FetchLimits::default() };
    let arguments = Value::object([("url", Value::from(url))]);
    let answer = HttpClient::new(limits).fetch(&[rule], &arguments, &TouchLog::default()).await;
    let answer = answer.map_err(|error| error.to_string())?;
    let status = answer.get("status").map(Value::to_json).unwrap_or_default();
    if status != "200" {
        return Err(format!("the answer has the status {status}"));
    }
    let body = answer.get("body").and_then(Value::as_str);
    body.map(str::to_owned).ok_or_else(|| "the answer is not text".to_owned())
}

fn program(package: &PackageText, given: &mut GivenValues) -> Result<Launch, String> {
    if package.transport.kind != "stdio" {
        let kind = one_line(&package.transport.kind, SHOWN_BYTES);
        return Err(format!("it speaks `{kind}`; a program that Opcell starts speaks `stdio`"));
    }
    let (manager, hosts) = match package.registry_type.as_str() {
        "npm" => (PackageManager::Npm, ["https://registry.npmjs.org", "https://registry.npmjs.org/"]),
        "pypi" => (PackageManager::Pip, ["https://pypi.org", "https://pypi.org/"]),
        other => {
            let other = one_line(other, SHOWN_BYTES);
            return Err(format!("it is of the registry `{other}`; `npm` and `pypi` are known here"));
        }
    };
    let runner = manager.name();
    if let Some(base) = package.registry_base_url.as_deref().filter(|base| !hosts.contains(base)) {
        return Err(format!("it comes from `{}`, and `{runner}` from {}", one_line(base, SHOWN_BYTES), hosts[0]));
    }
    if let Some(hint) = package.runtime_hint.as_deref().filter(|hint| *hint != manager.hint()) {
        let known = manager.hint();
        return Err(format!("it is started with `{}`; `{known}` is known here", one_line(hint, SHOWN_BYTES)));
    }
    if package.file_sha256.is_some() {
        return Err(format!("it names the digest of its file, which `{runner}` does not check"));
    }
    let identifier = &package.identifier;
    if !is_package(identifier, manager == PackageManager::Npm) {
        return Err("this is not the name of a package".to_owned());
    }
    let version = package.version.as_deref().unwrap_or("latest");
    if !is_exact(version) {
        let version = one_line(version, SHOWN_BYTES);
        return Err(format!("its version `{version}` is not an exact one, so that another one could start tomorrow"));
    }
    // Some of them name another package, or another place to take it from.
    if !package.runtime_arguments.is_empty() {
        let hint = manager.hint();
        return Err(format!("it asks for arguments of `{hint}`, with which something else could start"));
    }
    let (program, install) = match manager {
        PackageManager::Npm => ("node", format!("{identifier}@{version}")),
        PackageManager::Pip => ("python3", format!("{identifier}=={version}")),
    };
    let mut command = vec![program.to_owned()];
    for argument in &package.package_arguments {
        command.extend(argument_of(argument, given)?);
    }
    let variables: Result<Vec<Variable>, String> = package.environment_variables.iter().map(variable).collect();
    let package = format!("{} {identifier}@{version}", package.registry_type);
    Ok(Launch::Program { manager, install, command, package, variables: variables? })
}

/// The file of an installed npm package that starts it, below the folder that it was installed in.
///
/// # Errors
/// With a sentence about the package.
pub fn program_of(folder: &Path, install: &str) -> Result<String, String> {
    let name = install.rsplit_once('@').map_or(install, |(name, _)| name);
    let package = format!("node_modules/{name}");
    let text = read_text_bounded(&folder.join(&package).join("package.json"), MAX_DOCUMENT_BYTES as u64);
    let text = text.map_err(|error| format!("the package `{name}` cannot be read: {error}"))?;
    let json: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| format!("the package `{name}` cannot be read: {error}"))?;
    let short = name.rsplit('/').next().unwrap_or(name);
    let bin = match json.get("bin") {
        Some(serde_json::Value::String(file)) => Some(file.as_str()),
        Some(serde_json::Value::Object(files)) => {
            let only = files.values().next().filter(|_| files.len() == 1);
            files.get(short).or(only).and_then(serde_json::Value::as_str)
        }
        _ => None,
    };
    let file = bin.ok_or_else(|| format!("the package `{name}` names no program, or several"))?;
    let file = plain(file.trim_start_matches("./").to_owned(), "bin")?;
    let is_below = Path::new(&file).components().all(|part| matches!(part, Component::Normal(_)));
    if is_below { Ok(format!("{package}/{file}")) } else { Err(format!("the program of `{name}` is outside of it")) }
}

/// Bytes of the report of what `pip` installed, and packages in it.
const MAX_REPORT_BYTES: u64 = 64 << 20;
const MAX_PACKAGES: usize = 1_000;

/// The requirements that stand for exactly the files that `pip` installed, with their digests: the lock file of a
/// package of PyPI. `report` is the file that `pip install --report` writes.
///
/// # Errors
/// With a sentence about the report.
pub fn requirements_of(report: &Path) -> Result<String, String> {
    let text = read_text_bounded(report, MAX_REPORT_BYTES)
        .map_err(|error| format!("the report of `pip` cannot be read: {error}"))?;
    let json: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| format!("the report of `pip` cannot be read: {error}"))?;
    let packages = json.get("install").and_then(serde_json::Value::as_array);
    let packages = packages.filter(|packages| (1..=MAX_PACKAGES).contains(&packages.len()));
    let packages =
        packages.ok_or_else(|| format!("the report of `pip` names no package, or more than {MAX_PACKAGES}"))?;
    let mut lines = BTreeSet::new();
    for package in packages {
        let text = |pointer: &str| package.pointer(pointer).and_then(serde_json::Value::as_str).unwrap_or_default();
        let (name, version) = (text("/metadata/name"), text("/metadata/version"));
        let digest = text("/download_info/archive_info/hashes/sha256");
        if !is_package(name, false) || !is_version(version) || !is_sha256(digest) {
            let name = one_line(name, SHOWN_BYTES);
            return Err(format!("the report of `pip` has no version or no digest of the package `{name}`"));
        }
        lines.insert(format!("{name}=={version} --hash=sha256:{digest}\n"));
    }
    Ok(lines.into_iter().collect())
}

fn is_sha256(digest: &str) -> bool {
    digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A Python program that starts an installed package of PyPI, whose packages are in the folder `site` beside it.
/// `install` is the package as `NAME==VERSION`.
///
/// # Errors
/// With a sentence about the package.
pub fn starter_of(site: &Path, install: &str) -> Result<String, String> {
    let name = install.split("==").next().unwrap_or(install);
    let cannot = |error: &dyn std::fmt::Display| format!("the package `{name}` cannot be read: {error}");
    let folders = std::fs::read_dir(site).map_err(|error| cannot(&error))?;
    let about = folders
        .filter_map(|folder| folder.ok()?.file_name().into_string().ok())
        .find(|folder| {
            let package = folder.strip_suffix(".dist-info").and_then(|package| package.split_once('-'));
            package.is_some_and(|(package, _)| normal(package) == normal(name))
        })
        .ok_or_else(|| cannot(&"it is not among what was installed"))?;
    let file = site.join(about).join("entry_points.txt");
    let text = match read_text_bounded(&file, MAX_DOCUMENT_BYTES as u64) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        read => read.map_err(|error| cannot(&error))?,
    };
    let mut programs = BTreeMap::new();
    let mut is_of_programs = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            is_of_programs = line == "[console_scripts]";
        } else if let Some((program, target)) = line.split_once('=').filter(|_| is_of_programs) {
            programs.insert(normal(program.trim()), target.split('[').next().unwrap_or(target).trim().to_owned());
        }
    }
    let only = programs.values().next().filter(|_| programs.len() == 1);
    let target = programs.get(&normal(name)).or(only);
    let target = target.ok_or_else(|| format!("the package `{name}` names no program, or several"))?;
    let is_path = |path: &str| {
        path.split('.').all(|part| {
            part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        })
    };
    let named = target.split_once(':').map(|(module, function)| (module.trim(), function.trim()));
    let Some((module, function)) = named.filter(|(module, function)| is_path(module) && is_path(function)) else {
        return Err(format!("the program of `{name}` is not a function of a module"));
    };
    Ok(format!(
        "# Starts {install}; written by Opcell.\nimport importlib\nimport os\nimport sys\n\n\
         sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), \"{SITE}\"))\n\
         start = importlib.import_module(\"{module}\")\n\
         for name in \"{function}\".split(\".\"):\n    start = getattr(start, name)\nsys.exit(start())\n"
    ))
}

/// The folder of packages of PyPI, in the folder of their server.
pub const SITE: &str = "site";

/// A name of PyPI as all its spellings have it.
fn normal(name: &str) -> String {
    let parts: Vec<&str> = name.split(['-', '_', '.']).filter(|part| !part.is_empty()).collect();
    parts.join("-").to_ascii_lowercase()
}

/// Returns `true` for a name that no package manager takes for an option, a path or an address.
fn is_package(name: &str, is_npm: bool) -> bool {
    let is_part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric())
            && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
    };
    if name.len() > 214 {
        return false;
    }
    match name.strip_prefix('@').filter(|_| is_npm) {
        Some(scoped) => scoped.split_once('/').is_some_and(|(scope, name)| is_part(scope) && is_part(name)),
        None => is_part(name),
    }
}

/// Returns `true` for one version, and not for a range or a tag.
fn is_exact(version: &str) -> bool {
    let has_wildcard = version.split(['.', '-', '+']).any(|part| matches!(part, "x" | "X" | "*"));
    is_version(version) && version.contains('.') && !has_wildcard
}

fn is_version(version: &str) -> bool {
    version.len() <= 100
        && version.starts_with(|c: char| c.is_ascii_digit())
        && version.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+' | '_' | '!'))
}

fn argument_of(argument: &ArgumentText, given: &mut GivenValues) -> Result<Option<String>, String> {
    let flag = argument.input.name.as_deref().unwrap_or_default();
    let label = match argument.kind.as_str() {
        "positional" => argument.value_hint.as_deref().unwrap_or("argument"),
        "named" if !flag.is_empty() => flag.trim_start_matches('-'),
        _ => return Err("one of its arguments is neither `positional` nor `named`".to_owned()),
    };
    if argument.input.is_secret || argument.input.variables.values().any(|variable| variable.is_secret) {
        let label = one_line(label, SHOWN_BYTES);
        return Err(format!("its argument `{label}` is a secret, which every process of this machine could read"));
    }
    let value = resolved(&argument.input, label, given)?;
    let value = match (argument.kind.as_str(), value) {
        ("named", Some(value)) => Some(format!("{flag}={value}")),
        (_, value) => value,
    };
    value.map(|value| plain(value, label)).transpose()
}

/// A text without what a terminal or a program would read otherwise than it is shown.
fn plain(value: String, label: &str) -> Result<String, String> {
    if value.len() <= VALUE_BYTES && one_line(&value, VALUE_BYTES) == value {
        return Ok(value);
    }
    Err(format!("the value of `{}` is too long or cannot be printed", one_line(label, SHOWN_BYTES)))
}

/// The value of an input: the publisher's, else the user's, else the default; nothing where it may be left out.
fn resolved(input: &InputText, label: &str, given: &mut GivenValues) -> Result<Option<String>, String> {
    if let Some(value) = &input.value {
        return filled(value, &input.variables, given).map(Some);
    }
    let value = given.take(label).or_else(|| input.default.clone());
    let shown = one_line(label, SHOWN_BYTES);
    match value {
        Some(value) if !input.choices.is_empty() && !input.choices.contains(&value) => {
            let choices = one_line(&input.choices.join("`, `"), SHOWN_BYTES);
            Err(format!("`{shown}` is one of `{choices}`, and not `{}`", one_line(&value, SHOWN_BYTES)))
        }
        None if input.is_required => {
            let about = input.description.as_deref().unwrap_or_default();
            let about = one_line(about, SHOWN_BYTES);
            let about = if about.is_empty() { String::new() } else { format!(" ({about})") };
            let problem = format!("it needs a value for `{shown}`{about}");
            given.missing.push(shown);
            Err(problem)
        }
        value => Ok(value),
    }
}

/// A text with its variables in place. Other text in braces stays.
fn filled(text: &str, variables: &BTreeMap<String, InputText>, given: &mut GivenValues) -> Result<String, String> {
    let mut rest = text;
    let mut filled = String::new();
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        match after.split_once('}').and_then(|(name, rest)| Some((name, variables.get(name)?, rest))) {
            Some((name, variable, after)) => {
                let own = InputText { is_required: true, variables: BTreeMap::new(), ..variable.clone() };
                filled.push_str(&resolved(&own, name, given)?.unwrap_or_default());
                rest = after;
            }
            None => {
                filled.push('{');
                rest = after;
            }
        }
        if filled.len() > VALUE_BYTES {
            return Err(format!("one of its values has more than {VALUE_BYTES} bytes"));
        }
    }
    filled.push_str(rest);
    Ok(filled)
}

fn variable(input: &InputText) -> Result<Variable, String> {
    let name = input.name.clone().unwrap_or_default();
    if !is_variable(&name) {
        return Err(format!("`{}` is not a name of a variable of the environment", one_line(&name, SHOWN_BYTES)));
    }
    let expected = input.value.clone().or_else(|| input.default.clone());
    Ok(Variable {
        name,
        description: one_line(input.description.as_deref().unwrap_or_default(), SHOWN_BYTES),
        required: input.is_required,
        secret: input.is_secret,
        expected: expected.map(|value| one_line(&value, SHOWN_BYTES)),
    })
}

fn is_variable(name: &str) -> bool {
    name.len() <= 100
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn address(remote: &RemoteText, given: &mut GivenValues) -> Result<Launch, String> {
    if remote.kind != "streamable-http" {
        return Err(format!("it speaks `{}`; `streamable-http` is known here", one_line(&remote.kind, SHOWN_BYTES)));
    }
    let url = plain(filled(&remote.url, &remote.variables, given)?, "url")?;
    if !url.starts_with("https://") {
        return Err("it is not an address of `https`".to_owned());
    }
    let credential = match remote.headers.as_slice() {
        [] => None,
        [only] => Some(credential(only)?),
        more => return Err(format!("it asks for {} headers; one is sent, with a secret", more.len())),
    };
    Ok(Launch::Remote { url, credential })
}

/// The header that carries a secret: `Bearer {token}`, or nothing but the secret.
fn credential(header: &InputText) -> Result<RemoteCredential, String> {
    let name = header.name.clone().unwrap_or_default().to_ascii_lowercase();
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
        return Err(format!("`{}` is not a name of a header", one_line(&name, SHOWN_BYTES)));
    }
    let (prefix, of) = match header.value.as_deref().map(|value| value.split_once('{')) {
        None => (String::new(), name.clone()),
        Some(Some((prefix, rest))) if rest.ends_with('}') && !rest.trim_end_matches('}').contains(['{', '}']) => {
            (plain(prefix.to_owned(), &name)?, rest.trim_end_matches('}').to_owned())
        }
        Some(_) => return Err(format!("its header `{name}` is not a secret after a prefix")),
    };
    let variable = of.to_ascii_uppercase().replace('-', "_");
    if !is_variable(&variable) {
        return Err(format!("`{}` is not a name of a variable of the environment", one_line(&variable, SHOWN_BYTES)));
    }
    Ok(RemoteCredential { header: name, prefix, variable })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value as Json, json};

    fn document(package: Json) -> String {
        json!({"name": "io.github.user/weather", "description": "Weather.", "version": "1.0.2", "packages": [package]})
            .to_string()
    }

    fn npm(more: Json) -> Json {
        let mut package = json!({"registryType": "npm", "identifier": "@user/weather", "version": "1.0.2", "transport": {"type": "stdio"}});
        for (key, value) in more.as_object().unwrap() {
            package[key] = value.clone();
        }
        package
    }

    fn launch(text: &str, given: &[(&str, &str)]) -> Result<Launch, Vec<String>> {
        let given = given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Published::read(text).unwrap().launch(&mut GivenValues::new(given))
    }

    #[test]
    fn a_package_becomes_a_command_with_its_exact_version() {
        let package = npm(json!({
            "runtimeHint": "npx",
            "packageArguments": [
                {"type": "named", "name": "--units", "default": "metric", "choices": ["metric", "imperial"]},
                {"type": "positional", "valueHint": "place", "isRequired": true, "description": "Where."},
                {"type": "positional", "value": "--in={folder}/x{y}", "variables": {"folder": {"default": "/tmp"}}},
                {"type": "named", "name": "--quiet"},
            ],
            "environmentVariables": [{"name": "KEY", "isRequired": true, "isSecret": true, "description": "a\u{1b}b"}],
        }));
        let entry =
            json!({"server": serde_json::from_str::<Json>(&document(package)).unwrap(), "_meta": {}}).to_string();
        let Launch::Program { install, command, package, variables, .. } =
            launch(&entry, &[("place", "Rome; rm -rf /"), ("units", "imperial")]).unwrap()
        else {
            unreachable!()
        };
        assert_eq!(command, ["node", "--units=imperial", "Rome; rm -rf /", "--in=/tmp/x{y}"]);
        assert_eq!((install.as_str(), package.as_str()), ("@user/weather@1.0.2", "npm @user/weather@1.0.2"));
        let [key] = variables.as_slice() else { unreachable!() };
        assert_eq!((key.name.as_str(), key.required, key.secret), ("KEY", true, true));
        assert!(!key.description.contains('\u{1b}'));
        let pypi =
            json!({"registryType": "pypi", "identifier": "weather", "version": "2.0", "transport": {"type": "stdio"}});
        let Launch::Program { manager, install, command, .. } = launch(&document(pypi), &[]).unwrap() else {
            unreachable!()
        };
        assert_eq!((manager, install.as_str()), (PackageManager::Pip, "weather==2.0"));
        assert_eq!(command, ["python3"]);
    }

    #[test]
    fn a_package_of_pypi_is_started_by_the_function_that_it_names() {
        let folder = tempfile::tempdir().unwrap();
        let about = folder.path().join("We_ather.Server-2.0.dist-info");
        std::fs::create_dir(&about).unwrap();
        std::fs::create_dir(folder.path().join("we_ather_server_extras-1.0.dist-info")).unwrap();
        let of = |text: &str| {
            std::fs::write(about.join("entry_points.txt"), text).unwrap();
            starter_of(folder.path(), "we-ather-server==2.0")
        };
        let several = "[gui_scripts]\nother = bad:main\n[console_scripts]\nx = y:z\nwe_ather-server = weather.cli : app.main [fast]\n";
        let starter = of(several).unwrap();
        assert!(
            starter.contains("import_module(\"weather.cli\")") && starter.contains("\"app.main\".split"),
            "{starter}"
        );
        assert!(of("[console_scripts]\nonly = weather:main\n").unwrap().contains("\"weather\""));
        for (text, sentence) in [
            ("", "names no program"),
            ("[console_scripts]\na = x:y\nb = x:z\n", "or several"),
            ("[console_scripts]\na = os;evil:main\n", "not a function"),
            ("[console_scripts]\na = weather\n", "not a function"),
            ("[console_scripts]\na = weather:main()\n", "not a function"),
        ] {
            assert!(of(text).unwrap_err().contains(sentence), "{text}");
        }
        assert!(starter_of(folder.path(), "absent==1.0").unwrap_err().contains("not among"));
    }

    #[test]
    fn the_requirements_have_the_version_and_the_digest_of_each_package() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("report.json");
        let of = |packages: Json| {
            std::fs::write(&file, json!({"version": "1", "install": packages}).to_string()).unwrap();
            requirements_of(&file)
        };
        let package = |name: &str, digest: &str| {
            json!({"metadata": {"name": name, "version": "1.0"},
                "download_info": {"archive_info": {"hashes": {"sha256": digest}}}})
        };
        let digest = "0a".repeat(32);
        let lines = of(json!([package("weather", &digest), package("anyio", &digest)])).unwrap();
        assert_eq!(lines, format!("anyio==1.0 --hash=sha256:{digest}\nweather==1.0 --hash=sha256:{digest}\n"));
        for packages in [json!([]), json!([package("weather", "")]), json!([package("a\nb", &digest)]), json!(7)] {
            assert!(of(packages.clone()).is_err(), "{packages}");
        }
        assert!(requirements_of(&folder.path().join("absent")).unwrap_err().contains("cannot be read"));
    }

    #[test]
    fn values_that_are_missing_and_those_that_nothing_asks_for_are_named() {
        let place = json!({"type": "positional", "valueHint": "place", "isRequired": true});
        let entry = document(npm(json!({"packageArguments": [place]})));
        let mut given = GivenValues::new(BTreeMap::from([("plcae".to_owned(), "Rome".to_owned())]));
        Published::read(&entry).unwrap().launch(&mut given).unwrap_err();
        assert_eq!((given.missing(), given.unused()), (["place".to_owned()].as_slice(), vec!["plcae"]));
        assert_eq!(given.asked().collect::<Vec<_>>(), ["place"]);
    }

    #[test]
    fn a_document_that_would_not_start_as_it_says_is_refused_with_a_sentence() {
        let argument = |argument: Json| json!({"packageArguments": [argument]});
        for (more, sentence) in [
            (json!({"version": "latest"}), "is not an exact one"),
            (json!({"version": "^1.0.2"}), "is not an exact one"),
            (json!({"version": "1.x"}), "is not an exact one"),
            (json!({"version": "1"}), "is not an exact one"),
            (json!({"version": null}), "is not an exact one"),
            (json!({"identifier": "--call=rm"}), "not the name of a package"),
            (json!({"identifier": "https://evil.example/x.tgz"}), "not the name of a package"),
            (json!({"identifier": "../weather"}), "not the name of a package"),
            (json!({"registryType": "oci"}), "`npm` and `pypi` are known"),
            (json!({"registryBaseUrl": "https://evil.example"}), "comes from `https://evil.example`"),
            (json!({"runtimeHint": "docker"}), "started with `docker`"),
            (json!({"fileSha256": "00"}), "does not check"),
            (json!({"runtimeArguments": [{"type": "positional", "value": "evil"}]}), "something else could start"),
            (
                json!({"registryType": "pypi", "identifier": "weather", "runtimeArguments":
                    [{"type": "named", "name": "--from", "value": "git+https://evil.example/x"}]}),
                "something else could start",
            ),
            (json!({"transport": {"type": "sse"}}), "speaks `sse`"),
            (
                argument(json!({"type": "positional", "valueHint": "place", "isRequired": true})),
                "needs a value for `place`",
            ),
            (argument(json!({"type": "named", "name": "--key", "isSecret": true})), "is a secret"),
            (argument(json!({"type": "named", "name": "--u", "default": "x", "choices": ["y"]})), "is one of `y`"),
            (argument(json!({"type": "positional", "value": "a\u{202e}b"})), "cannot be printed"),
            (argument(json!({"type": "odd"})), "neither `positional` nor `named`"),
            (json!({"environmentVariables": [{"name": "A=B"}]}), "not a name of a variable"),
        ] {
            let refused = launch(&document(npm(more.clone())), &[]).unwrap_err();
            assert!(refused.len() == 1 && refused[0].contains(sentence), "{more}: {refused:?}");
        }
        let long: Vec<Json> = (0..=MAX_ENTRIES).map(|_| json!({"name": "A"})).collect();
        for (text, sentence) in [
            ("{".to_owned(), "not JSON"),
            ("{}".to_owned(), "not a server.json: missing field `name`"),
            (document(json!({"registryType": "npm"})), "missing field `identifier`"),
            (document(npm(json!({"environmentVariables": long}))), "at most 64"),
            (document(npm(json!({}))).replace("io.github.user/weather", "weather"), "is not one such as"),
            (" ".repeat(MAX_DOCUMENT_BYTES + 1), "bytes"),
        ] {
            let refused = Published::read(&text).unwrap_err();
            assert!(refused.contains(sentence), "{refused}");
        }
    }

    #[test]
    fn an_address_comes_with_its_one_credential() {
        let of = |remote: Json| {
            let text = json!({"name": "a/b", "version": "1.0", "remotes": [remote]}).to_string();
            launch(&text, &[("host", "tools")])
        };
        let found =
            of(json!({"type": "streamable-http", "url": "https://{host}.example/mcp", "variables": {"host": {}},
            "headers": [{"name": "Authorization", "value": "Bearer {api-token}", "isSecret": true}]}));
        let credential = RemoteCredential {
            header: "authorization".to_owned(),
            prefix: "Bearer ".to_owned(),
            variable: "API_TOKEN".to_owned(),
        };
        let url = "https://tools.example/mcp".to_owned();
        assert_eq!(found, Ok(Launch::Remote { url, credential: Some(credential) }));
        for (remote, sentence) in [
            (json!({"type": "sse", "url": "https://a.example"}), "speaks `sse`"),
            (json!({"type": "streamable-http", "url": "http://a.example"}), "not an address of `https`"),
            (
                json!({"type": "streamable-http", "url": "https://a.example", "headers": [{"name": "a"}, {"name": "b"}]}),
                "2 headers",
            ),
            (
                json!({"type": "streamable-http", "url": "https://a.example", "headers": [{"name": "a", "value": "b"}]}),
                "not a secret",
            ),
        ] {
            let refused = of(remote).unwrap_err();
            assert!(refused[0].contains(sentence), "{refused:?}");
        }
    }

    #[test]
    fn a_value_that_nothing_asks_for_is_known() {
        let mut given = GivenValues::new([("plcae".to_owned(), "Rome".to_owned())].into());
        Published::read(&document(npm(json!({})))).unwrap().launch(&mut given).unwrap();
        assert_eq!(given.unused(), ["plcae"]);
    }
}
