//! Follow-ups: what a person can do next, as data. A library names no command of a program that it may not be part of: it
//! writes follow-ups into its texts, and each surface, such as the command line, installs its own words for them.

use crate::Remedy;
use std::{fmt, sync::OnceLock};

/// A next step for a person. Each surface displays it in its own way, such as a command; without a surface, a neutral
/// phrase is displayed.
///
/// ```
/// use opcell_types::follow_up::FollowUp;
///
/// let help = format!("{} shows its steps", FollowUp::ShowRun("r".to_owned()));
/// assert_eq!(help, "its history shows its steps");
/// ```
// Exhaustive, so that a surface that lacks words for one does not compile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FollowUp {
    /// Read the history of a run.
    ShowRun(String),
    /// List the runs of the journal.
    ListRuns,
    /// Write the events of a run to a file.
    ExportRun(String),
    /// Drive a run on.
    ResumeRun(String),
    /// Accept a run of a journal that came from elsewhere.
    AdoptRun(String),
    /// Accept every such run.
    AdoptRuns,
    /// Take the clock as true for retention.
    TrustClock,
    /// Answer the approval of a run.
    ApproveRun,
    /// Compare a plugin with the version that was accepted; without a name, any.
    DiffPlugin(Option<String>),
    /// Accept the version of a plugin that was found; without a name, any.
    AcceptPlugin(Option<String>),
    /// Fetch a plugin from its registry.
    FetchPlugin(String),
    /// Push a plugin to a registry.
    PushPlugin,
    /// Begin a plugin in a language.
    NewPlugin(Option<&'static str>),
    /// Build the component at a path, or of a folder.
    BuildPlugin(Option<String>),
    /// Use a component that was not written for Opcell.
    AddTyped,
    /// Build the runtime for programs in Python.
    InstallPython,
    /// Check the project.
    CheckProject,
    /// List the operations of the plugins.
    ListOperations,
    /// Compare the tools of an MCP server with those that were accepted.
    DiffServer(String),
    /// Accept the tools of an MCP server.
    AcceptServer(String),
    /// Read what the project requests.
    ShowTrust,
    /// Name the project file, so that it is used on purpose.
    NameProject(String),
    /// Name the journal, so that it is used on purpose.
    NameJournal,
    /// Name the component that is to be called.
    NameComponent,
    /// Choose this prompt of a pack.
    ChoosePrompt(String),
    /// Give inputs of these names when a run starts.
    GiveInputs(Vec<String>),
    /// The project runs with a lock that must not change.
    Frozen,
    /// Read all findings.
    AllFindings,
    /// Change what a denial says would allow it.
    Allow(Box<Remedy>),
}

/// The phrases of this program's surface.
static WORDS: OnceLock<fn(&FollowUp) -> String> = OnceLock::new();

/// Installs the phrases of this program's surface. Only the first call has an effect.
pub fn install(words: fn(&FollowUp) -> String) {
    // A process has one surface: a second one uses the phrases of the first.
    let _ = WORDS.set(words);
}

impl fmt::Display for FollowUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(words) = WORDS.get() {
            return f.write_str(&words(self));
        }
        match self {
            Self::ShowRun(_) => f.write_str("its history"),
            Self::ListRuns => f.write_str("the list of runs"),
            Self::ExportRun(_) => f.write_str("an export of the run"),
            Self::ResumeRun(_) => f.write_str("a resume"),
            Self::AdoptRun(_) => f.write_str("its adoption"),
            Self::AdoptRuns => f.write_str("adopt them"),
            Self::TrustClock => f.write_str("trust in the clock"),
            Self::ApproveRun => f.write_str("another way"),
            Self::DiffPlugin(_) | Self::DiffServer(_) => f.write_str("a comparison with what was accepted"),
            Self::AcceptPlugin(_) | Self::AcceptServer(_) => f.write_str("an update of opcell.lock"),
            Self::FetchPlugin(_) => f.write_str("the client of its registry"),
            Self::PushPlugin => f.write_str("Opcell's client of registries"),
            Self::NewPlugin(_) => f.write_str("a template for plugins"),
            Self::BuildPlugin(_) => f.write_str("the tools for authors of plugins"),
            Self::AddTyped => f.write_str("typed exports in its configuration"),
            Self::InstallPython => f.write_str("the tool for authors of plugins"),
            Self::CheckProject => f.write_str("the error of its loading"),
            Self::ListOperations => f.write_str("the catalog"),
            Self::ShowTrust => f.write_str("the list of the project's requests"),
            Self::NameProject(_) => f.write_str("as the program's own project file"),
            Self::NameJournal => f.write_str("as the program's own journal"),
            Self::NameComponent => f.write_str("name its component"),
            Self::ChoosePrompt(name) => write!(f, "`{name}`"),
            Self::GiveInputs(names) => write!(f, "`{}`", names.join("`, `")),
            Self::Frozen => f.write_str("the lock must not change"),
            Self::AllFindings => f.write_str("`Rejected::diagnostics`"),
            Self::Allow(remedy) => remedy.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_surface_a_follow_up_names_no_command() {
        let run = || "r".to_owned();
        for follow_up in [
            FollowUp::ShowRun(run()),
            FollowUp::ListRuns,
            FollowUp::ExportRun(run()),
            FollowUp::ResumeRun(run()),
            FollowUp::AdoptRun(run()),
            FollowUp::AdoptRuns,
            FollowUp::TrustClock,
            FollowUp::ApproveRun,
            FollowUp::DiffPlugin(None),
            FollowUp::AcceptPlugin(Some(run())),
            FollowUp::FetchPlugin(run()),
            FollowUp::PushPlugin,
            FollowUp::NewPlugin(None),
            FollowUp::BuildPlugin(None),
            FollowUp::AddTyped,
            FollowUp::InstallPython,
            FollowUp::CheckProject,
            FollowUp::ListOperations,
            FollowUp::DiffServer(run()),
            FollowUp::AcceptServer(run()),
            FollowUp::ShowTrust,
            FollowUp::NameProject(run()),
            FollowUp::NameJournal,
            FollowUp::NameComponent,
            FollowUp::ChoosePrompt(run()),
            FollowUp::Frozen,
            FollowUp::AllFindings,
            FollowUp::Allow(Box::new(Remedy::Nothing)),
        ] {
            let said = follow_up.to_string();
            assert!(!said.is_empty() && !said.contains("opcell ") && !said.contains("--"), "{follow_up:?}: {said}");
        }
    }
}
