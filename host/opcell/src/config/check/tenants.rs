//! Reading `[tenants]`.

use super::{Checker, span_of};
use crate::config::{TenantConfig, TenantShare, text::TenantText};
use indexmap::IndexMap;
use serde_spanned::Spanned;

/// The name of the project itself.
const OWN: &str = "default";

impl Checker<'_> {
    pub(super) fn tenants(&mut self, tenants: IndexMap<Spanned<String>, TenantText>) -> Vec<TenantConfig> {
        tenants.into_iter().filter_map(|(name, text)| self.tenant(&name, &text)).collect()
    }

    fn tenant(&mut self, name: &Spanned<String>, text: &TenantText) -> Option<TenantConfig> {
        let written = name.get_ref().as_str();
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if written.is_empty() || written.len() > 64 || !written.chars().all(plain) || written == OWN {
            let message = format!("`{}` is not a name of a tenant", crate::report::printable(written));
            let help = format!("a name has 1 to 64 lower-case letters, digits and `-`; `{OWN}` is the project itself");
            self.error("invalid-tenant", span_of(name), message, Some(help));
            return None;
        }
        let project = self.root.join(text.project.get_ref());
        if !project.is_file() {
            let message = format!("the project file `{}` does not exist", text.project.get_ref());
            let help = self.path_help(&project);
            self.error("path-not-found", span_of(&text.project), message, Some(help));
            return None;
        }
        let mut count = |key: &str, written: Option<&Spanned<u32>>| {
            let written = written?;
            if *written.get_ref() == 0 {
                let message = format!("`{key}` must be at least 1");
                self.error("invalid-limit", span_of(written), message, Some("remove the tenant instead".to_owned()));
            }
            Some(*written.get_ref())
        };
        let share = TenantShare {
            cells: count("cells", text.cells.as_ref()),
            model_rounds: count("model-rounds", text.model_rounds.as_ref()),
            requests_per_second: count("requests-per-second", text.requests_per_second.as_ref()),
            started_runs: count("started-runs", text.started_runs.as_ref()),
            calls: count("calls", text.calls.as_ref()),
            readers: count("readers", text.readers.as_ref()),
        };
        Some(TenantConfig { name: written.to_owned(), project, share })
    }
}
