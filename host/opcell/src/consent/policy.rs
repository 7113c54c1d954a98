//! The policy by which the owner of the machine, or the user, forbids things to every project.

use super::{Reach, Requests};
use crate::{
    places::{MACHINE_POLICY, Places},
    report::Rejected,
};
use opcell_ir::Diagnostic;
use opcell_types::files::read_text_bounded;
use serde::Deserialize;
use std::{
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Kinds of reach that no project has, whoever consents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    forbidden: Vec<(Reach, PathBuf)>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
struct PolicyText {
    forbid: Vec<Reach>,
}

impl Policy {
    /// The machine's policy, [`MACHINE_POLICY`], and the user's, `policy.toml` among the user's configuration. Both
    /// hold.
    ///
    /// # Errors
    /// When one exists and cannot be read, is not a policy, or could have been written by someone else.
    pub fn read(places: &Places) -> Result<Self, Rejected> {
        let user = rustix::process::geteuid().as_raw();
        let mut policy = Self::default();
        policy.add(Path::new(MACHINE_POLICY), 0)?;
        if let Some(folder) = &places.config {
            policy.add(&folder.join("policy.toml"), user)?;
        }
        Ok(policy)
    }

    fn add(&mut self, file: &Path, owner: u32) -> Result<(), Rejected> {
        let wrong = |what: String| {
            let message = format!("the policy {} {what}", file.display());
            Rejected::plain(
                Diagnostic::error("policy-unreadable", message).help("correct it; until then no project is used"),
            )
        };
        let text = match read_text_bounded(file, 1 << 20) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(wrong(format!("cannot be read: {error}"))),
        };
        let status = file.metadata().map_err(|error| wrong(format!("cannot be read: {error}")))?;
        if status.uid() != owner && status.uid() != 0 || status.mode() & 0o002 != 0 {
            return Err(wrong("could have been written by another user".to_owned()));
        }
        let text: PolicyText = toml_edit::de::from_str(&text).map_err(|error| wrong(format!("is wrong: {error}")))?;
        self.forbidden.extend(text.forbid.into_iter().map(|reach| (reach, file.to_owned())));
        Ok(())
    }

    /// Refuses a project that asks for something forbidden.
    ///
    /// # Errors
    /// With every such request.
    pub fn check(&self, requests: &Requests) -> Result<(), Rejected> {
        let mut findings = Vec::new();
        for request in requests.iter() {
            if let Some((_, file)) = self.forbidden.iter().find(|(reach, _)| *reach == request.reach) {
                let message = format!("{} forbids what this project asks for: {request}", file.display());
                let help = format!("take it out of the project file, or `{}` out of `forbid`", request.reach.word());
                findings.push(Diagnostic::error("forbidden-by-policy", message).help(help));
            }
        }
        match findings.is_empty() {
            true => Ok(()),
            false => Err(Rejected { source: None, diagnostics: findings }),
        }
    }
}
