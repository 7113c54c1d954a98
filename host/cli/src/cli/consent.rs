//! The question before a project that reaches outside of its folder runs, or a tool of a plugin's folder.

use super::{args::Global, failure::Failure};
use opcell::{
    config::Config,
    consent::{Before, Policy, Request, Requests, Trusted, shell},
    places::Places,
};
use opcell_author::Project;
use opcell_ir::Diagnostic;
use std::{
    fmt::Write as _,
    io::{self, BufRead as _, IsTerminal as _, Write as _},
    path::PathBuf,
};

/// Requests that a person is asked about at once.
const READABLE: usize = 40;

/// The requests of a project, and its user's answers.
pub(super) struct Asked {
    pub(super) project: PathBuf,
    pub(super) requests: Requests,
    pub(super) trusted: Trusted,
    /// For this command.
    given: bool,
    /// As the user named the project, for commands to copy.
    named: Option<PathBuf>,
    /// True for a tool that builds a plugin, in place of a project.
    is_tool: bool,
}

impl Asked {
    /// Finds out. Fails when the machine's policy forbids something of it.
    pub(super) fn of(global: &Global, config: &Config) -> Result<Self, Failure> {
        let places = Places::of_user();
        let requests = Requests::of(config);
        let project = config.file.clone().unwrap_or_default();
        if requests.is_empty() {
            let (trusted, named) = (Trusted::default(), None);
            return Ok(Self { project, requests, trusted, given: true, named, is_tool: false });
        }
        Self::about(global, &places, project, requests, false)
    }

    fn about(
        global: &Global,
        places: &Places,
        project: PathBuf,
        requests: Requests,
        is_tool: bool,
    ) -> Result<Self, Failure> {
        requests.check_lengths()?;
        Policy::read(places)?.check(&requests)?;
        let variable = std::env::var("OPCELL_TRUST").unwrap_or_default();
        let given = global.trust.iter().map(String::as_str).chain(variable.split([' ', ',']));
        let given = given.into_iter().any(|digest| requests.is_named_by(digest));
        Ok(Self { project, trusted: Trusted::read(places)?, given, requests, named: global.config.clone(), is_tool })
    }

    pub(super) fn is_allowed(&self) -> bool {
        self.given || self.trusted.has(&self.project, &self.requests)
    }

    /// Asks where there is someone to ask, and remembers a yes.
    pub(super) fn require(mut self) -> Result<(), Failure> {
        if self.is_allowed() {
            return Ok(());
        }
        // A yes to what no screen shows would be a yes to anything.
        let readable = self.requests.iter().count() <= READABLE;
        if readable && io::stdin().is_terminal() && io::stderr().is_terminal() && self.ask()? {
            return Ok(self.trusted.allow(&self.project, &self.requests)?);
        }
        self.refuse_unless_allowed()
    }

    /// Asks no one.
    pub(super) fn refuse_unless_allowed(&self) -> Result<(), Failure> {
        if self.is_allowed() {
            return Ok(());
        }
        let message = format!("{}\n{}", self.headline(), self.list(READABLE));
        let mut finding = Diagnostic::error("consent-needed", message.trim_end());
        let digest = self.requests.short_digest();
        finding.help = Some(match self.is_tool {
            true => format!("to allow this for one command: `--trust {digest}`; on a terminal you are asked"),
            false => {
                format!("to allow this: `{}`; for one command only: `--trust {digest}`", self.command(&[digest]))
            }
        });
        Err(finding.into())
    }

    /// Remembers consent, where any is needed, if the project asks for nothing beyond `before`, to which there was
    /// consent, and what `also` says: a checkout may have changed since. False if it asks for more.
    pub(super) fn remember(mut self, before: &Requests, also: impl Fn(&Request) -> bool) -> Result<bool, Failure> {
        if self.is_allowed() {
            return Ok(true);
        }
        if !self.requests.is_within(before, also) {
            return Ok(false);
        }
        self.trusted.allow(&self.project, &self.requests)?;
        Ok(true)
    }

    fn ask(&self) -> io::Result<bool> {
        let mut err = io::stderr().lock();
        write!(err, "{}\n{}Allow this? [y/N] ", self.headline(), self.list(READABLE))?;
        err.flush()?;
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
    }

    pub(super) fn headline(&self) -> String {
        let project = opcell::report::printable(&self.project.display().to_string()).into_owned();
        match self.trusted.knows(&self.project) && !self.is_allowed() {
            true => format!("{project} asks for something else than you allowed (new lines are marked `+`):"),
            false => format!("{project} asks for access outside its folder:"),
        }
    }

    /// Every request, or as many as a person reads.
    pub(super) fn list(&self, most: usize) -> String {
        let mut text = String::new();
        let changed = self.trusted.knows(&self.project);
        for request in self.requests.iter().take(most) {
            let _ = match self.trusted.before(&self.project, request) {
                Before::New if changed => writeln!(text, "  + {request}"),
                Before::Changed => writeln!(text, "  + {request}; the program has changed"),
                _ => writeln!(text, "  - {request}"),
            };
        }
        let more = self.requests.iter().count().saturating_sub(most);
        if more > 0 {
            let _ = writeln!(text, "  and {more} more: `{}` shows them all", self.command(&["--show"]));
        }
        text
    }

    /// `opcell trust` for this project.
    pub(super) fn command(&self, words: &[&str]) -> String {
        let config = self.named.iter().map(|file| format!("--config {}", shell(file)));
        let words = words.iter().map(|word| (*word).to_owned());
        std::iter::once("opcell trust".to_owned()).chain(config).chain(words).collect::<Vec<_>>().join(" ")
    }
}

/// Consent to the programs that a plugin's folder brings along for building it: asked once for all of them.
pub(super) fn require_tool(global: &Global, plugin: &Project) -> Result<(), Failure> {
    let programs = opcell_author::tools_of_folder(plugin);
    if programs.is_empty() {
        return Ok(());
    }
    let requests = || Requests::of_tools(&plugin.folder, &programs);
    let asked_for = requests();
    let file = plugin.folder.join(opcell_author::project::FILE);
    Asked::about(global, &Places::of_user(), file, asked_for.clone(), true)?.require()?;
    // The question may have stood open for a while.
    match requests() == asked_for {
        true => Ok(()),
        false => {
            let names: Vec<String> = programs.iter().map(|program| program.display().to_string()).collect();
            let message = format!("{} changed since starting them was allowed", names.join(" or "));
            Err(Diagnostic::error("trust-changed", message).help("look at it, then start again").into())
        }
    }
}
