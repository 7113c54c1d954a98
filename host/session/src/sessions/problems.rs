//! Problems that would keep a session from opening, found before a run: names that nothing here answers to.

use super::HostSessions;
use super::settings::profile;
use crate::prompt::ComponentSelection;
use opcell_ir::checks::SessionProblem;
use opcell_ir::ir::Session;
use opcell_types::suggest::hint;

impl HostSessions {
    /// Returns what a session declares and this host does not have, tools, skills and workflows aside.
    #[must_use]
    pub fn problems(&self, session: &Session) -> Vec<SessionProblem> {
        let mut found = Vec::new();
        let mut add = |key, code, message: String| found.push(SessionProblem { key, code, message });
        if let Some(model) = &session.model
            && let Err(error) = self.models.check(model)
        {
            add("model", "unknown-model", error.to_string());
        }
        if let Some(name) = &session.session_profile
            && let Err(failure) = profile(name, &self.profiles)
        {
            add("session-profile", "unknown-session-profile", failure.message);
        }
        for name in session.extensions.iter().flatten() {
            if self.extensions.iter().all(|extension| extension.name != *name) {
                let hint = hint(name, self.extensions.iter().map(|extension| extension.name.as_str()));
                add("extensions", "unknown-extension", format!("no extension is called `{name}` here{hint}"));
            }
        }
        // Settings without a conversation are a layer over sessions that may ask for probabilities themselves.
        let converses = !session.contributions.is_empty() || !session.prompts.is_empty();
        if converses && session.top_logprobs.is_some() && !self.asks_logprobs(session) {
            let message = "`top-logprobs` means nothing without `logprobs`: no probabilities are asked for";
            add("top-logprobs", "top-logprobs-without-logprobs", message.to_owned());
        }
        if let Some(Err(error)) = session.prompt_component_selection.as_ref().map(ComponentSelection::parse) {
            add("prompt-component-selection", "invalid-selection", error.to_string());
        }
        found
    }

    /// Returns `true` if token probabilities are requested, by the session, its profile or the host, in this order.
    fn asks_logprobs(&self, session: &Session) -> bool {
        let profile = session.session_profile.as_ref().and_then(|name| self.profiles.get(name));
        let said = session.logprobs.or(profile.and_then(|profile| profile.logprobs));
        said.or(self.defaults.logprobs) == Some(true)
    }
}
