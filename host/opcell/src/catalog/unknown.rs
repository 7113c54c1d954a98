//! The help for names that no plugin offers.

use super::Catalog;
use opcell_ir::{Diagnostic, diagnostic::did_you_mean};
use opcell_sandbox::LoadError;
use opcell_types::FollowUp;

/// Operations that are shown in the place of one.
const SHARED_NAMES: usize = 4;

impl Catalog {
    pub(crate) fn unknown(&self, id: &str) -> Diagnostic {
        let mut diagnostic = Diagnostic::error("unknown-operation", format!("no plugin of the project offers `{id}`"));
        diagnostic.help = match did_you_mean(id, self.entries.keys().map(AsRef::as_ref)) {
            Some(meant) => Some(format!("did you mean `{meant}`?")),
            None => self.left_out_help().or_else(|| self.shared_help(id)),
        };
        diagnostic
    }

    /// An operation of an interface is named after its plugin as soon as a second plugin offers the interface.
    fn shared_help(&self, id: &str) -> Option<String> {
        let (_, name) = id.rsplit_once('/')?;
        let is_same = |known: &&str| known.rsplit_once('/').is_some_and(|(_, known)| known == name);
        let known: Vec<&str> = self.entries.keys().map(AsRef::as_ref).filter(is_same).take(SHARED_NAMES).collect();
        (known.len() > 1).then(|| {
            format!(
                "it is offered as `{}`: where several plugins offer an interface, its operations are named after them",
                known.join("` and `")
            )
        })
    }

    /// An operation that is not there may be one of a plugin that was left out: no one has asked it what it offers.
    pub(crate) fn left_out_help(&self) -> Option<String> {
        let named = |is: fn(&LoadError) -> bool| -> Vec<String> {
            let left_out = self.left_out.iter().filter(|left_out| is(&left_out.error));
            left_out.map(|left_out| format!("`{}`", left_out.plugin)).collect()
        };
        let said = |names: Vec<String>, one: &str, several: &str| match names.as_slice() {
            [] => None,
            [name] => Some(format!("plugin {name} is not loaded, because {one}")),
            names => Some(format!("plugins {} are not loaded, because {several}", names.join(", "))),
        };
        let (diff, accept) = (FollowUp::DiffPlugin(None), FollowUp::AcceptPlugin(None));
        let accepted = format!("{diff} shows what has changed, and {accept} accepts it");
        let changed = said(
            named(|error| matches!(error, LoadError::Changed { .. })),
            &format!("its file is not the one that was agreed to; {accepted}"),
            &format!("their files are not those that were agreed to; {accepted}"),
        );
        let asks = said(
            named(|error| matches!(error, LoadError::AsksForMore(_))),
            "it asks for more than was agreed to",
            "they ask for more than was agreed to",
        );
        let unusable = said(
            named(LoadError::is_of_component),
            &format!("its component cannot be used; {} shows why", FollowUp::CheckProject),
            &format!("their components cannot be used; {} shows why", FollowUp::CheckProject),
        );
        let reasons: Vec<String> = [changed, asks, unusable].into_iter().flatten().collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }
}
