//! The parts of a program that the project starts, as far as they are found without starting it.
//!
//! A command names a few files and loads others: modules, a script's own imports, what a build tool reads. Consent to a
//! command covers the folders that these lie in, whole, as their files are when consent is asked for; the same files
//! are compared each time before the program is started, and no grant of a folder extends to writing them. Where
//! nothing names a file of the project, or there is too much of it, the line of the request says that nothing is
//! covered.

use crate::{config::tools::McpServer, places::real};
use opcell_tools::mcp::{StartCheck, is_started_without_variables, reads_pycache};
use opcell_types::{FollowUp, control::is_code};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs::{self, File},
    io::{self, Read as _},
    path::{Component, Path, PathBuf},
};

/// Files of one program that are read. With [`MAX_BYTES`] a fraction of a second.
const MAX_FILES: usize = 4_096;

/// Bytes of them.
const MAX_BYTES: u64 = 256 << 20;

/// Entries of folders that are looked at.
const MAX_ENTRIES: usize = 65_536;

/// The same, for all programs of a project together.
const MAX_PROJECT_ENTRIES: usize = 1 << 20;

/// Programs that read in the folder that they are started in what they are to run.
const RUNNERS: [&str; 55] = [
    "make",
    "gmake",
    "just",
    "task",
    "rake",
    "npm",
    "yarn",
    "pnpm",
    "bun",
    "deno",
    "tsx",
    "ts-node",
    "nodemon",
    "cargo",
    "go",
    "gradle",
    "gradlew",
    "mvn",
    "mvnw",
    "sbt",
    "lein",
    "clj",
    "clojure",
    "bb",
    "mix",
    "rebar3",
    "iex",
    "bundle",
    "poetry",
    "pdm",
    "uv",
    "rye",
    "hatch",
    "tox",
    "nox",
    "invoke",
    "doit",
    "scons",
    "waf",
    "dotnet",
    "composer",
    "artisan",
    "cmake",
    "ctest",
    "meson",
    "ninja",
    "bazel",
    "buck",
    "buck2",
    "pants",
    "docker-compose",
    "podman-compose",
    "honcho",
    "foreman",
    "overmind",
];

/// Programs that fetch others, which take folders for their data: `npx -y some-server .`
const FETCHERS: [&str; 6] = ["npx", "bunx", "uvx", "pipx", "docker", "podman"];

/// Parts of the folder that a program is started in that it runs or reads: an interpreter's packages, and what says
/// which they are.
const PACKAGES: [&str; 5] = ["package.json", "node_modules", ".venv", "venv", "pyproject.toml"];

/// Beginnings of the names of interpreters. Modules of the folder that they are started in come before their own:
/// `python3 -m server` reads `json.py` there.
const INTERPRETERS: [&str; 19] = [
    "python",
    "pypy",
    "node",
    "nodejs",
    "ruby",
    "perl",
    "php",
    "lua",
    "tclsh",
    "Rscript",
    "julia",
    "java",
    "sh",
    "bash",
    "dash",
    "zsh",
    "ksh",
    "fish",
    "osascript",
];

/// Folders whose files are made from others, fetched, or kept by version control: too many, and changed by every run.
const LEFT_OUT: [&str; 15] = [
    ".git",
    ".hg",
    ".svn",
    ".jj",
    ".opcell",
    "node_modules",
    "__pycache__",
    ".venv",
    "venv",
    ".tox",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".cache",
    "target",
];

/// Those of them that hold no code that a program loads, or only what it made of the covered sources itself.
const HARMLESS: [&str; 9] =
    [".git", ".hg", ".svn", ".jj", ".opcell", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache"];

/// Folders that are left out and named in a line of consent.
const MAX_NAMED_LEFT_OUT: usize = 3;

/// Endings of files that programs write while they run.
const STATE: [&str; 13] = [
    ".db",
    ".db-wal",
    ".db-shm",
    ".db-journal",
    ".sqlite",
    ".sqlite3",
    ".sqlite-wal",
    ".sqlite-shm",
    ".sqlite3-wal",
    ".sqlite3-shm",
    ".log",
    ".pid",
    ".sock",
];

/// A part of what a program is made of, absolute and without links.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Part {
    File(PathBuf),
    /// Everything in a folder but state.
    Folder(PathBuf),
    /// The code in the project's folder: the rest is what people and models work on.
    Code(PathBuf),
}

/// The parts of a program, and a digest of them.
#[derive(Debug, Clone)]
pub(crate) struct Cover {
    parts: Vec<Part>,
    /// Folders within the parts that the digest leaves out although code may be loaded from them: packages and builds.
    /// They come and go without a new consent, so that two covers may differ in them.
    left_out: Vec<PathBuf>,
    /// Digest of every file, by its name in the project; `None` where there is too much of it.
    digest: Option<String>,
    /// Parts that are not read for the digest, and not written by models and plugins either.
    beside: Vec<PathBuf>,
    /// The folder that it is started in, of which the code is not written either: it may be loaded, and there may be
    /// too much of it, changed too often, to ask for consent each time.
    reach: Option<PathBuf>,
}

/// The parts of a program as its command names them.
struct Named {
    parts: Vec<Part>,
    beside: Vec<PathBuf>,
    reach: Option<PathBuf>,
}

impl PartialEq for Cover {
    fn eq(&self, other: &Self) -> bool {
        let Self { parts, left_out: _, digest, beside, reach } = self;
        (parts, digest, beside, reach) == (&other.parts, &other.digest, &other.beside, &other.reach)
    }
}

/// The parts of every program of a project, by the names of the servers.
pub(crate) type Covers = BTreeMap<String, Cover>;

/// Files that were read for the programs of a project: each is read once, however many programs load it, and the bytes
/// of all of them are bounded together.
struct Contents {
    digests: HashMap<PathBuf, blake3::Hash>,
    bytes_left: u64,
    entries_left: usize,
    /// The findings for each set of parts, and the places that are written to.
    parts: HashMap<(Vec<Part>, Vec<PathBuf>, Bytecode), Found>,
}

/// The compiled files in `__pycache__` that a program loads, whatever their sources say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Bytecode {
    /// Those that name their source by a hash: the program looks for others in a folder of this user's.
    OfHashes,
    /// All: it cannot be told of that folder.
    All,
}

impl Bytecode {
    fn of(server: &McpServer) -> Self {
        let directory = real(&server.directory);
        let words = std::iter::once(&server.program).chain(&server.arguments).flat_map(|word| tokens(word));
        let mut files = words.flat_map(|token| named(&directory, token));
        let is_all = reads_pycache(&server.program, &server.arguments) || files.any(|file| is_untold_script(&file));
        if is_all { Self::All } else { Self::OfHashes }
    }

    fn is_loaded(self, path: &Path) -> bool {
        match self {
            Self::OfHashes => is_trusted_bytecode(path),
            Self::All => is_bytecode(path),
        }
    }
}

/// The findings in the parts of a program.
#[derive(Debug, Clone, Default)]
struct Found {
    /// Digest of every file; `None` where there is nothing, or too much.
    digest: Option<String>,
    left_out: Vec<PathBuf>,
}

impl Default for Contents {
    fn default() -> Self {
        Self {
            digests: HashMap::new(),
            bytes_left: MAX_BYTES,
            entries_left: MAX_PROJECT_ENTRIES,
            parts: HashMap::new(),
        }
    }
}

impl Contents {
    /// Returns the digest of a regular file; `None` where there is too much to read.
    fn digest(&mut self, path: &Path) -> io::Result<Option<blake3::Hash>> {
        if let Some(known) = self.digests.get(path) {
            return Ok(Some(*known));
        }
        let mut content = blake3::Hasher::new();
        let mut file = File::open(path)?.take(self.bytes_left.saturating_add(1));
        content.update_reader(&mut file)?;
        let read = self.bytes_left.saturating_add(1).saturating_sub(file.limit());
        if read > self.bytes_left {
            return Ok(None);
        }
        self.bytes_left -= read;
        let digest = content.finalize();
        self.digests.insert(path.to_owned(), digest);
        Ok(Some(digest))
    }
}

impl Cover {
    /// Looks at what the server's command names. Blocks.
    pub(crate) fn of(server: &McpServer, root: &Path) -> Self {
        Self::with(server, &real(root), &mut Contents::default())
    }

    /// As [`Self::of`], for all programs of a project.
    pub(crate) fn of_all<'a>(servers: impl Iterator<Item = (&'a String, &'a McpServer)>, root: &Path) -> Covers {
        let (root, mut contents) = (real(root), Contents::default());
        servers.map(|(name, server)| (name.clone(), Self::with(server, &root, &mut contents))).collect()
    }

    fn with(server: &McpServer, root: &Path, contents: &mut Contents) -> Self {
        let Named { parts, beside, reach } = named_by(server, root);
        let written: Vec<PathBuf> = server.write.iter().map(|path| real(path)).collect();
        let bytecode = Bytecode::of(server);
        let key = (parts, written, bytecode);
        let Found { digest, left_out } = match contents.parts.get(&key) {
            Some(known) => known.clone(),
            None => {
                let found = look(&key.0, &key.1, bytecode, root, contents).unwrap_or_default();
                contents.parts.insert(key.clone(), found.clone());
                found
            }
        };
        Self { digest, left_out, parts: key.0, beside, reach }
    }

    /// As [`Self::of`], for a program of a folder.
    pub(crate) fn of_program(program: &Path, folder: &Path) -> Self {
        Self::of(&Self::server(program, folder), folder)
    }

    fn server(program: &Path, folder: &Path) -> McpServer {
        McpServer {
            program: program.display().to_string(),
            arguments: Vec::new(),
            directory: folder.to_owned(),
            env: Vec::new(),
            call_time: McpServer::DEFAULT_CALL_TIME,
            result_bytes: McpServer::DEFAULT_RESULT_BYTES,
            remote: None,
            confine: false,
            read: Vec::new(),
            write: Vec::new(),
            network: false,
        }
    }

    /// Returns `true` if consent covers nothing of what the program loads.
    pub(crate) fn is_nothing(&self) -> bool {
        self.digest.is_none()
    }

    pub(crate) fn digest(&self) -> Option<&str> {
        self.digest.as_deref()
    }

    /// Names the covered parts for a line of consent; `shown` names a place of the project.
    pub(crate) fn line(&self, shown: impl Fn(&Path) -> String) -> String {
        if self.is_nothing() {
            return "nothing of what it loads is covered".to_owned();
        }
        let part = |part: &Part| match part {
            Part::File(path) | Part::Folder(path) => shown(path),
            Part::Code(path) => format!("the code in {}", shown(path)),
        };
        let covered = self.parts.iter().map(part).collect::<Vec<_>>().join(", ");
        if self.left_out.is_empty() {
            return format!("covers {covered}");
        }
        let named: Vec<String> = self.left_out.iter().take(MAX_NAMED_LEFT_OUT).map(|path| shown(path)).collect();
        let more = self.left_out.len().saturating_sub(named.len());
        let more = if more > 0 { format!(" and {more} more folders") } else { String::new() };
        format!("covers {covered}; not {}{more}", named.join(", "))
    }

    /// Files and folders that no grant extends to writing.
    pub(crate) fn fixed(&self) -> impl Iterator<Item = PathBuf> {
        let whole = self.parts.iter().filter_map(|part| match part {
            Part::File(path) | Part::Folder(path) => Some(path.clone()),
            Part::Code(_) => None,
        });
        whole.chain(self.beside.iter().cloned())
    }

    /// Folders of which no grant extends to writing the code.
    pub(crate) fn loaded(&self) -> impl Iterator<Item = PathBuf> {
        let code = self.parts.iter().filter_map(|part| match part {
            Part::Code(path) => Some(path.clone()),
            Part::File(_) | Part::Folder(_) => None,
        });
        code.chain(self.reach.clone())
    }
}

/// Compares a program with what consent was given to, each time before it is started.
pub(crate) struct SameAsConsented {
    pub(crate) server: McpServer,
    pub(crate) root: PathBuf,
    pub(crate) cover: Cover,
}

impl StartCheck for SameAsConsented {
    fn check(&self) -> Result<(), String> {
        let now = Cover::of(&self.server, &self.root);
        if now == self.cover {
            return Ok(());
        }
        let line = self.cover.line(|path| path.strip_prefix(real(&self.root)).unwrap_or(path).display().to_string());
        Err(format!(
            "it has changed since its start was allowed ({line}); look at it with {}, then start again",
            FollowUp::ShowTrust
        ))
    }
}

fn named_by(server: &McpServer, root: &Path) -> Named {
    let directory = real(&server.directory);
    let words = std::iter::once(&server.program).chain(&server.arguments);
    let tokens: Vec<&str> = words.flat_map(|word| tokens(word)).collect();
    let program =
        |token: &&str| Path::new(token).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
    let fetches = tokens.iter().any(|token| FETCHERS.contains(&program(token).as_str()));
    let mut parts = BTreeSet::new();
    if directory != root && directory.starts_with(root) {
        parts.insert(Part::Folder(directory.clone()));
    }
    for named in tokens.iter().flat_map(|token| named(&directory, token)) {
        let named = real(&named);
        let Ok(below) = named.strip_prefix(root) else { continue };
        if fetches && named.is_dir() {
            continue;
        }
        let within = |part: &Part| matches!(part, Part::Folder(folder) if named.starts_with(folder));
        if parts.iter().any(within) && !below.components().any(|part| is_left_out(part.as_os_str())) {
            continue;
        }
        parts.extend(of_named(&named, below, root));
    }
    let is_in_root = directory == root || !directory.starts_with(root) && root.starts_with(&directory);
    if is_in_root && tokens.iter().any(|token| RUNNERS.contains(&program(token).as_str())) {
        parts.insert(Part::Code(root.to_owned()));
    }
    let interprets = tokens.iter().any(|token| is_interpreter(token));
    let is_within = directory.starts_with(root);
    let loads = is_within && (!parts.is_empty() || interprets);
    let is_fixed =
        |path: &Path| parts.iter().any(|part| matches!(part, Part::Folder(folder) if path.starts_with(folder)));
    let beside = PACKAGES.iter().filter(|_| is_within && fetches || loads).map(|name| directory.join(name));
    let beside = beside.filter(|path| !is_fixed(path)).collect();
    let reach = Some(directory).filter(|directory| loads && !is_fixed(directory));
    Named { parts: parts.into_iter().collect(), beside, reach }
}

/// Returns `true` for the name of an interpreter, whatever its version: `/usr/bin/python3.11`.
fn is_interpreter(token: &str) -> bool {
    let name = token.rsplit('/').next().unwrap_or(token);
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    INTERPRETERS.contains(&name)
}

/// The parts that a named file or folder belongs to: the outermost folder below the project's; data for itself.
fn of_named(named: &Path, below: &Path, root: &Path) -> Vec<Part> {
    if named.is_file() && is_state(named) {
        return Vec::new();
    }
    let is_script = || named.extension().is_none() || is_code(named);
    if named.is_file() && !is_script() {
        return vec![Part::File(named.to_owned())];
    }
    let mut components = below.components();
    let first = match components.next() {
        Some(Component::Normal(first)) => root.join(first),
        // The project's folder itself.
        _ => return vec![Part::Code(root.to_owned())],
    };
    if below.components().any(|part| is_left_out(part.as_os_str())) {
        return vec![Part::Folder(package(named, below, root))];
    }
    match first.is_dir() {
        true => vec![Part::Folder(first)],
        // A script at the top loads what lies beside it.
        false => vec![Part::File(named.to_owned()), Part::Code(root.to_owned())],
    }
}

/// The folder of a package among others: `node_modules/@scope/name`, `.venv/bin`.
fn package(named: &Path, below: &Path, root: &Path) -> PathBuf {
    let parts: Vec<Component<'_>> = below.components().collect();
    let last = parts.iter().rposition(|part| is_left_out(part.as_os_str())).unwrap_or_default();
    let is_scope = parts.get(last + 1).is_some_and(|part| part.as_os_str().as_encoded_bytes().starts_with(b"@"));
    let own: PathBuf = parts.iter().take(last + if is_scope { 3 } else { 2 }).collect();
    let own = root.join(own);
    if own.is_dir() { own } else { named.parent().unwrap_or(named).to_owned() }
}

fn is_left_out(name: &std::ffi::OsStr) -> bool {
    name.to_str().is_some_and(|name| LEFT_OUT.contains(&name))
}

/// The parts of a word that may name files: `sh -c 'python3 srv/main.py'`, `--import=./hook.js`.
fn tokens(word: &str) -> impl Iterator<Item = &str> {
    let separators = |c: char| c.is_whitespace() || "=;&|()<>,:'\"`".contains(c);
    std::iter::once(word).chain(word.split(separators)).filter(|token| !token.is_empty())
}

/// Files and folders that a token may mean: a path, or a module of Python or JavaScript without its extension.
fn named(directory: &Path, token: &str) -> Vec<PathBuf> {
    let token = token.strip_prefix("-m").filter(|module| !module.is_empty()).unwrap_or(token);
    if token.starts_with('-') || token.len() > 1_024 || token.contains('\0') {
        return Vec::new();
    }
    let mut found = vec![directory.join(token)];
    let is_module = token.chars().all(|c| c.is_alphanumeric() || "._-/@".contains(c));
    if is_module {
        let endings = ["py", "js", "mjs", "cjs", "ts", "mts", "tsx", "rb", "sh"];
        found.extend(endings.iter().map(|ending| directory.join(format!("{token}.{ending}"))));
    }
    // A module of a package, `package.module`, lies in the folder `package`.
    if is_module && !token.contains('/') && !token.starts_with('.') {
        let slashed = token.replace('.', "/");
        found.extend(["", ".py"].map(|ending| directory.join(format!("{slashed}{ending}"))));
        found.extend(token.split_once('.').map(|(package, _)| directory.join(package)));
    }
    found.retain(|path| path.exists());
    found
}

/// Reads every file of the parts.
fn look(
    parts: &[Part],
    written: &[PathBuf],
    bytecode: Bytecode,
    root: &Path,
    contents: &mut Contents,
) -> io::Result<Found> {
    if parts.is_empty() {
        return Ok(Found::default());
    }
    let mut walk = Walk {
        root,
        files: BTreeMap::new(),
        left_out: Vec::new(),
        entries: 0,
        entries_left: contents.entries_left.min(MAX_ENTRIES),
        written,
    };
    for part in parts {
        let complete = match part {
            Part::File(path) => walk.add(path),
            Part::Folder(folder) => walk.folder(folder, |path| !is_state(path) || bytecode.is_loaded(path))?,
            Part::Code(folder) => {
                walk.folder(folder, |path| is_code(path) && !is_state(path) || bytecode.is_loaded(path))?
            }
        };
        if !complete {
            contents.entries_left = contents.entries_left.saturating_sub(walk.entries);
            return Ok(Found::default());
        }
    }
    contents.entries_left = contents.entries_left.saturating_sub(walk.entries);
    let mut hasher = blake3::Hasher::new_derive_key("opcell 2026 what a program is made of");
    for (path, target) in &walk.files {
        let name = path.strip_prefix(root).unwrap_or(path).as_os_str().as_encoded_bytes();
        hasher.update(&(name.len() as u64).to_le_bytes()).update(name);
        if let Some(target) = target {
            let target = target.as_os_str().as_encoded_bytes();
            hasher.update(b"link").update(&(target.len() as u64).to_le_bytes()).update(target);
        }
        // What is no regular file holds nothing, and opening a pipe would wait.
        if !fs::metadata(path).is_ok_and(|found| found.is_file()) {
            hasher.update(b"none");
            continue;
        }
        let Some(content) = contents.digest(path)? else { return Ok(Found::default()) };
        hasher.update(content.as_bytes());
    }
    let mut left_out = walk.left_out;
    left_out.sort_unstable();
    left_out.dedup();
    Ok(Found { digest: Some(hasher.finalize().to_hex().to_string()), left_out })
}

/// Returns `true` for compiled Python that names its source by a hash: Python runs it whatever the source says, or
/// compares a hash that whoever made the file could compute. One that names a time is refused by another rule: servers
/// look for compiled files in a folder of this user's (`PYTHONPYCACHEPREFIX`), and not in `__pycache__`, unless they
/// cannot be told to.
fn is_trusted_bytecode(path: &Path) -> bool {
    const HASH_BASED: u8 = 1;
    let mut head = [0; 8];
    is_bytecode(path)
        && fs::metadata(path).is_ok_and(|about| about.is_file())
        && File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok()
        && head.get(2..4) == Some(b"\r\n")
        && head.get(4).is_some_and(|flags| flags & HASH_BASED != 0)
}

/// Returns `true` for a script whose first line has Python ignore the variable that names that folder.
fn is_untold_script(path: &Path) -> bool {
    const LINE_BYTES: u64 = 256;
    let mut head = Vec::new();
    fs::metadata(path).is_ok_and(|about| about.is_file())
        && File::open(path).and_then(|file| file.take(LINE_BYTES).read_to_end(&mut head)).is_ok()
        && is_started_without_variables(String::from_utf8_lossy(&head).lines().next().unwrap_or_default())
}

fn is_bytecode(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("pyc"))
}

/// Returns `true` for a file that programs write while they run. Compiled Python is one only in `__pycache__`: elsewhere
/// Python loads it without a source.
fn is_state(path: &Path) -> bool {
    if is_bytecode(path) {
        let folder = path.parent().and_then(Path::file_name);
        return folder.is_some_and(|folder| folder == "__pycache__");
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    STATE.iter().any(|ending| name.ends_with(ending))
}

struct Walk<'a> {
    root: &'a Path,
    /// With what links say.
    files: BTreeMap<PathBuf, Option<PathBuf>>,
    /// Folders that are not looked into although code may be loaded from them.
    left_out: Vec<PathBuf>,
    entries: usize,
    entries_left: usize,
    /// Places that a confined server writes to.
    written: &'a [PathBuf],
}

impl Walk<'_> {
    /// False when there are too many.
    fn add(&mut self, path: &Path) -> bool {
        self.files.insert(path.to_owned(), fs::read_link(path).ok());
        self.files.len() <= MAX_FILES
    }

    fn folder(&mut self, folder: &Path, counts: impl Fn(&Path) -> bool) -> io::Result<bool> {
        let mut open = vec![folder.to_owned()];
        let mut seen = BTreeSet::new();
        while let Some(folder) = open.pop() {
            if !seen.insert(real(&folder)) || self.written.iter().any(|written| folder.starts_with(written)) {
                continue;
            }
            for entry in fs::read_dir(&folder)? {
                let entry = entry?;
                self.entries += 1;
                if self.entries > self.entries_left {
                    return Ok(false);
                }
                let path = entry.path();
                // A link to a folder of the project is followed: what is there is loaded like the rest.
                let inside = || real(&path).starts_with(self.root);
                if entry.file_type()?.is_dir() || path.is_dir() && inside() {
                    let name = entry.file_name();
                    if !is_left_out(&name) || name == "__pycache__" {
                        open.push(path);
                    } else if !HARMLESS.iter().any(|harmless| name == *harmless) {
                        self.left_out.push(path);
                    }
                } else if counts(&path) && !self.add(&path) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
