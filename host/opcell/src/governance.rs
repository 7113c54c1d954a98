//! The project's answer to the governance that PromptPacks declare.
//!
//! A pack says for which environments it is approved, and which rules something outside of Opcell has to keep. A run
//! starts only if the project says that it is such an environment, and that its operator sees to these rules: what
//! nothing keeps must not look as if it were kept.

use opcell_ir::{Diagnostic, WorkflowIr};
use serde::Deserialize;

/// `environment` and `accept-governance` of `[packs]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PackPolicy {
    /// The name of the environment that the project runs in.
    pub environment: Option<String>,
    /// The rules of packs to which the operator sees, as Opcell does not enforce them.
    pub accepted: Vec<OutsideRule>,
}

/// A rule of a pack's governance that something outside of Opcell has to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OutsideRule {
    /// People are told that they deal with an AI.
    RequiresAiDisclosure,
    /// Obligations of which a control is an eval, or outside of the pack.
    Obligations,
    /// Reviews that recur.
    Reviews,
    /// An agent shares nothing with the one whose work it reviews.
    IndependentOf,
}

impl OutsideRule {
    /// All of them, in the order of the documentation.
    pub const ALL: [Self; 4] = [Self::RequiresAiDisclosure, Self::Obligations, Self::Reviews, Self::IndependentOf];

    /// The name of its field in packs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RequiresAiDisclosure => "requires_ai_disclosure",
            Self::Obligations => "obligations",
            Self::Reviews => "reviews",
            Self::IndependentOf => "independent_of",
        }
    }
}

impl PackPolicy {
    /// The reason why no run of a workflow may start.
    #[must_use]
    pub fn refusal(&self, ir: &WorkflowIr) -> Option<Diagnostic> {
        let name = &ir.name;
        if let Some(approved) = &ir.governance.environments {
            let quoted: Vec<String> = approved.iter().map(|environment| format!("`{environment}`")).collect();
            let listed = if quoted.is_empty() { "no environment".to_owned() } else { quoted.join(", ") };
            let help = "the operator names the environment of the project: `environment` under [packs] of opcell.toml";
            let is = match &self.environment {
                None => "this project names none".to_owned(),
                Some(own) if approved.contains(own) => String::new(),
                Some(own) => format!("this project is `{own}`"),
            };
            if !is.is_empty() {
                let message = format!("`{name}` is approved for {listed}, and {is}");
                return Some(Diagnostic::error("environment-not-approved", message).help(help).path("governance"));
            }
        }
        // A name that this version does not know is not accepted either.
        let is_open = |field: &&String| !self.accepted.iter().any(|rule| rule.as_str() == field.as_str());
        let open: Vec<&str> = ir.governance.unenforced.iter().filter(is_open).map(String::as_str).collect();
        if open.is_empty() {
            return None;
        }
        let message = format!("`{name}` declares rules that Opcell does not enforce: {}", open.join(", "));
        let quoted: Vec<String> = open.iter().map(|field| format!("\"{field}\"")).collect();
        let help = format!(
            "if something else keeps them, the operator says so under [packs] of opcell.toml: `accept-governance = [{}]`",
            quoted.join(", ")
        );
        Some(Diagnostic::error("unenforced-governance", message).help(help).path("governance"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcell_ir::ir::Governance;

    fn refused(policy: &PackPolicy, environments: Option<&[&str]>, unenforced: &[&str]) -> Option<String> {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let mut ir: WorkflowIr =
            serde_json::from_str(r#"{"version":"workflow-ir/v1","name":"desk","steps":[]}"#).unwrap();
        ir.governance = Governance { environments: environments.map(texts), unenforced: texts(unenforced) };
        policy.refusal(&ir).map(|found| format!("{}: {}", found.code, found.message))
    }

    #[test]
    fn an_environment_has_to_be_named_and_approved() {
        let mut policy = PackPolicy::default();
        assert_eq!(refused(&policy, None, &[]), None);
        let found = refused(&policy, Some(&["uk"]), &[]).unwrap();
        assert_eq!(found, "environment-not-approved: `desk` is approved for `uk`, and this project names none");
        policy.environment = Some("eu".to_owned());
        let found = refused(&policy, Some(&["uk"]), &[]).unwrap();
        assert_eq!(found, "environment-not-approved: `desk` is approved for `uk`, and this project is `eu`");
        assert!(refused(&policy, Some(&[]), &[]).unwrap().contains("no environment"));
        assert_eq!(refused(&policy, Some(&["uk", "eu"]), &[]), None);
    }

    #[test]
    fn each_rule_that_is_not_enforced_has_to_be_accepted() {
        let fields = ["requires_ai_disclosure", "obligations", "reviews", "independent_of"];
        let mut policy = PackPolicy::default();
        let found = refused(&policy, None, &fields).unwrap();
        assert!(found.starts_with("unenforced-governance: ") && found.ends_with(&fields.join(", ")), "{found}");
        policy.accepted = OutsideRule::ALL.to_vec();
        assert_eq!(refused(&policy, None, &fields), None);
        policy.accepted.retain(|rule| *rule != OutsideRule::Reviews);
        assert!(refused(&policy, None, &fields).unwrap().ends_with(": reviews"));
        assert!(refused(&policy, None, &["of_a_later_version"]).is_some());
    }
}
