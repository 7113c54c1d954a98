//! The size of a compiled pack, known before it is compiled: each state, each step of a composition and each agent gets
//! the text of its prompt, with the fragments in it, and what the pack says of its tools and skills.

use super::{
    pack::{Pack, SkillSource},
    speaker,
};
use std::collections::HashMap;

/// Bytes of all prompts of a compiled pack.
const MAX_BYTES: usize = 64 << 20;

/// Bytes of a variable of a session, beside its name.
const VARIABLE_BYTES: usize = 100;

/// Refuses a pack whose prompts would be much larger together than the pack.
///
/// # Errors
/// With a sentence about the prompt with which they become too large.
pub(super) fn check(pack: &Pack) -> Result<(), String> {
    let mut left = MAX_BYTES;
    let instructions = |skill: &SkillSource| match skill {
        SkillSource::Inline { description, instructions, .. } => description.len() + instructions.len(),
        _ => 0,
    };
    let skills: usize = pack.skills.iter().map(instructions).sum();
    let uses = uses(pack);
    for (key, prompt) in &pack.prompts {
        let uses = uses.get(key.as_str()).copied().unwrap_or(0).saturating_add(1);
        // What is wrong with fragments is reported elsewhere.
        let template = speaker::expand_fragments(pack, prompt).map_or(0, |text| text.len());
        let named = |key: &String| {
            let described = pack.tools.get(key).map_or(0, |tool| tool.description.len());
            key.len().saturating_add(described)
        };
        let tools: usize = prompt.tools.iter().map(named).fold(0, usize::saturating_add);
        let variables: usize = prompt.variables.iter().map(|variable| variable.name.len() + VARIABLE_BYTES).sum();
        let each = [template, tools, variables, skills].into_iter().fold(0, usize::saturating_add);
        left = left.checked_sub(each.saturating_mul(uses)).ok_or_else(|| {
            format!(
                "prompt `{key}` is asked at {uses} places, and the prompts of all places would take more than \
                 {MAX_BYTES} bytes"
            )
        })?;
    }
    Ok(())
}

/// The places at which each prompt is asked.
fn uses(pack: &Pack) -> HashMap<&str, usize> {
    let mut uses = HashMap::new();
    let states = pack.workflow.iter().flat_map(|workflow| workflow.states.values()).map(|state| &state.prompt_task);
    let steps =
        pack.compositions.values().flat_map(|composition| composition.all_steps()).map(|step| &step.prompt_task);
    for key in states.chain(steps) {
        *uses.entry(key.as_str()).or_insert(0) += 1;
    }
    uses
}
