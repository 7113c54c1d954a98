//! The workflows that a workflow's delegates call, and the settings that the sessions of a callee inherit.

use super::{DelegateTarget, Form, Session, StepName, WorkflowIr};
use std::sync::Arc;

/// A workflow that a step calls.
#[derive(Debug, Clone, PartialEq)]
pub struct Callee {
    /// Its name.
    pub name: Arc<str>,
    /// The step that calls it.
    pub step: StepName,
    /// The settings that its sessions inherit; `None` when there are none.
    pub inherited: Option<Session>,
}

impl Session {
    /// The settings that the sessions of a callee inherit: the delegating step's settings over those that the step
    /// inherits itself.
    #[must_use]
    pub fn inherited(outer: Option<&Self>, own: &Self) -> Option<Self> {
        let session = outer.map_or_else(|| own.clone(), |outer| own.within(outer));
        (session != Self::default()).then_some(session)
    }
}

impl WorkflowIr {
    /// The workflows that steps call by name, where this one inherits these settings itself. Targets that only a run
    /// finds are left out.
    #[must_use]
    pub fn callees(&self, inherited: Option<&Session>) -> Vec<Callee> {
        let called = self.steps.iter().filter_map(|step| {
            let Form::Delegate { delegate } = &step.form else { return None };
            let DelegateTarget::Name(name) = &delegate.target else { return None };
            let inherited = Session::inherited(inherited, &delegate.session);
            Some(Callee { name: name.clone(), step: step.name.clone(), inherited })
        });
        called.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callee_inherits_from_its_delegate_and_from_the_delegates_above() {
        let ir: WorkflowIr = serde_json::from_str(
            r#"{"version":"workflow-ir/v1","name":"w","steps":[
            {"name":"plain","type":"delegate","delegate":{"target":"x","prompt-string":"p"},"yields":{"type":"delegated"}},
            {"name":"own","type":"delegate","delegate":{"target":"y","prompt-string":"p",
                "session":{"tools":["read","bash"],"prompt-mode":"prose","system-prompt":"Inner."}},"yields":{"type":"delegated"}}]}"#,
        )
        .unwrap();
        let inherited = |outer: Option<&Session>| -> Vec<Option<Session>> {
            ir.callees(outer).into_iter().map(|callee| callee.inherited).collect()
        };
        assert_eq!(inherited(None)[0], None);
        let outer = Session {
            tools: Some(vec!["read".to_owned()]),
            system_prompt: Some("Outer.".to_owned()),
            ..Session::default()
        };
        let [plain, own] = inherited(Some(&outer)).try_into().unwrap();
        assert_eq!(plain, Some(outer.clone()));
        let own = own.unwrap();
        assert_eq!((own.tools, own.system_prompt), (outer.tools, Some("Outer.\n\nInner.".to_owned())));
        assert!(own.prompt_mode.is_some());
    }
}
