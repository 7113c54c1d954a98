//! The names that a host has, as the static checks request them.

use crate::{catalog::Offer, host::Host};
use opcell_engine::ports::Workflows as _;
use opcell_ir::{
    WorkflowIr,
    checks::{Catalog, SessionProblem},
    ir::{Invoke, Session},
    names::Outcome,
};
use std::sync::Arc;

impl Catalog for Host {
    fn operations(&self) -> Option<Vec<String>> {
        Some(self.catalog().names())
    }

    fn workflows(&self) -> Option<Vec<String>> {
        Some(self.library().names())
    }

    fn skills(&self) -> Option<Vec<String>> {
        Some(self.sessions().skills().skills().map(|skill| skill.name.clone()).collect())
    }

    fn tools(&self) -> Option<Vec<String>> {
        Some(self.sessions().tools().tools().map(|tool| tool.name().to_owned()).collect())
    }

    fn workflow(&self, name: &str) -> Option<Arc<WorkflowIr>> {
        self.library().find(name)
    }

    fn broken_binding(&self, tool: &str) -> Option<(String, Option<String>)> {
        let target = self.catalog().broken_binding(tool)?;
        Some((target.to_owned(), self.catalog().unknown(target).help))
    }

    fn arguments(&self, id: &str) -> Option<serde_json::Value> {
        Some(self.catalog().resolve(id)?.0.arguments_schema.clone())
    }

    fn is_judge(&self, id: &str) -> bool {
        self.catalog().resolve(id).is_some_and(|(entry, _)| matches!(entry.offer, Offer::Judge { .. }))
    }

    fn session_problems(&self, session: &Session) -> Vec<SessionProblem> {
        self.sessions().problems(session)
    }

    fn outcomes(&self, call: &Invoke) -> Option<Vec<Outcome>> {
        match &self.catalog().resolve(&call.operation)?.0.offer {
            Offer::Judge { outcomes } => Some(outcomes.clone()).filter(|outcomes| !outcomes.is_empty()),
            Offer::Operation { data_schema, .. } => {
                let listed = data_schema.get("enum")?.as_array()?;
                listed.iter().map(|value| value.as_str().map(|text| Outcome::Text(text.into()))).collect()
            }
        }
    }
}
