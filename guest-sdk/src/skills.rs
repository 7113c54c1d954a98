//! Skills in the Agent Skills format. Only what is granted is listed.

use crate::bindings::imports::opcell::plugin0_1_0::skills as raw;
use crate::{Denial, Failure, host};
use std::fmt;

/// A granted skill.
#[derive(Debug, Clone, PartialEq)]
pub struct Skill {
    /// Its name.
    pub name: String,
    /// The description of its purpose.
    pub description: String,
}

/// Why a skill could not be read.
#[derive(Debug, Clone, PartialEq)]
pub enum SkillError {
    /// The host refused.
    Denied(Denial),
    /// There is no such skill or resource, or it cannot be read.
    Failed(Failure),
}

impl fmt::Display for SkillError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denied(denial) => denial.fmt(formatter),
            Self::Failed(failure) => failure.fmt(formatter),
        }
    }
}

impl std::error::Error for SkillError {}

impl From<SkillError> for Failure {
    fn from(error: SkillError) -> Self {
        match error {
            SkillError::Denied(denial) => denial.into(),
            SkillError::Failed(failure) => failure,
        }
    }
}

impl From<raw::SkillError> for SkillError {
    fn from(error: raw::SkillError) -> Self {
        match error {
            raw::SkillError::Denied(denial) => Self::Denied(denial),
            raw::SkillError::Failed(failure) => Self::Failed(failure.into()),
        }
    }
}

/// The granted skills.
#[must_use]
pub fn list() -> Vec<Skill> {
    host::skills::list().into_iter().map(|skill| Skill { name: skill.name, description: skill.description }).collect()
}

/// The body of a skill.
///
/// # Errors
/// When the host refuses, or there is no such skill.
pub fn read(name: &str) -> Result<String, SkillError> {
    Ok(host::skills::read(name)?)
}

/// A file that belongs to a skill, by its path relative to the skill.
///
/// # Errors
/// When the host refuses, or there is no such file.
pub fn read_resource(name: &str, path: &str) -> Result<Vec<u8>, SkillError> {
    Ok(host::skills::read_resource(name, path)?)
}
