//! `skills`: the host's skills that this cell may read.

use super::{View, failure_to_guest};
use crate::{
    bindings::opcell::plugin0_1_0::skills as wit,
    budget::Interface,
    host::within,
    recording::{Bytes, taped},
};
use opcell_types::{Capability, Failure};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

impl wit::Host for View<'_> {
    async fn list(&mut self) -> wasmtime::Result<Vec<wit::SkillDescription>> {
        taped!(self, Skills, "skills.list", Value::Null, self.listed_skills())
    }

    async fn read(&mut self, name: String) -> wasmtime::Result<Result<String, wit::SkillError>> {
        taped!(self, Skills, "skills.read", json!([name]), self.read_skill(&name).await)
    }

    async fn read_resource(
        &mut self,
        name: String,
        path: String,
    ) -> wasmtime::Result<Result<Vec<u8>, wit::SkillError>> {
        let read: wasmtime::Result<Result<Bytes, _>> = taped!(
            self,
            Skills,
            "skills.read-resource",
            json!([name, path]),
            self.read_skill_resource(&name, &path).await
        );
        Ok(read?.map(|Bytes(bytes)| bytes))
    }
}

impl View<'_> {
    fn listed_skills(&mut self) -> wasmtime::Result<Vec<wit::SkillDescription>> {
        self.0.budget.charge(Interface::Skills, 0)?;
        let (policy, narrowing) = (&self.0.linked.policy, self.0.narrowing.as_ref());
        let skills: Vec<_> = self
            .0
            .host
            .skills()
            .into_iter()
            .filter(|skill| policy.allows(Capability::Skill, &skill.name, narrowing).is_ok())
            .map(|skill| wit::SkillDescription { name: skill.name, description: skill.description })
            .collect();
        self.0.budget.give(skills.iter().map(|skill| skill.name.len() + skill.description.len()).sum())?;
        Ok(skills)
    }

    async fn read_skill(&mut self, name: &str) -> wasmtime::Result<Result<String, wit::SkillError>> {
        self.0.budget.charge(Interface::Skills, name.len())?;
        if let Err(denial) = self.0.check(Capability::Skill, name) {
            return Ok(Err(wit::SkillError::Denied(denial.into())));
        }
        let host = Arc::clone(&self.0.host);
        let limit = Duration::from_millis(self.0.limits.host_call_time);
        let answer = within(limit, host.read_skill(name, &self.0.context)).await;
        self.answer(answer, String::len)
    }

    async fn read_skill_resource(
        &mut self,
        name: &str,
        path: &str,
    ) -> wasmtime::Result<Result<Bytes, wit::SkillError>> {
        self.0.budget.charge(Interface::Skills, name.len() + path.len())?;
        if let Err(denial) = self.0.check(Capability::Skill, name) {
            return Ok(Err(wit::SkillError::Denied(denial.into())));
        }
        let host = Arc::clone(&self.0.host);
        let limit = Duration::from_millis(self.0.limits.host_call_time);
        let answer = within(limit, host.read_skill_resource(name, path, &self.0.context)).await;
        self.answer(answer.map(Bytes), |Bytes(bytes)| bytes.len())
    }
}

impl View<'_> {
    fn answer<T>(
        &mut self,
        answer: Result<T, Failure>,
        size: impl Fn(&T) -> usize,
    ) -> wasmtime::Result<Result<T, wit::SkillError>> {
        Ok(match answer {
            Ok(value) => {
                self.0.budget.give(size(&value))?;
                Ok(value)
            }
            Err(failure) => Err(match failure.denial {
                Some(denial) => wit::SkillError::Denied(self.0.denials.note(*denial).into()),
                None => wit::SkillError::Failed(failure_to_guest(failure)),
            }),
        })
    }
}
