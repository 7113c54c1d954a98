//! What a session's settings are, once everything that may say has been asked: the step first, then its profile, then what the
//! run inherits, then that's profile, then the host.

use super::failure;
use indexmap::IndexMap;
use opcell_engine::ports::{Failure, OpenSession};
use opcell_types::suggest::hint;
use opcell_workflow::ir::{Session, ThinkingLevel};

/// The settings, and the layers of instruction text, outermost first.
pub(super) struct Effective {
    pub(super) settings: Session,
    pub(super) instructions: Vec<String>,
}

pub(super) fn effective(
    request: &OpenSession,
    profiles: &IndexMap<String, Session>,
    defaults: &Session,
) -> Result<Effective, Failure> {
    let mut layers = Vec::new();
    for session in std::iter::once(&request.session).chain(&request.inherited) {
        layers.push(session);
        if let Some(name) = &session.session_profile {
            layers.push(profile(name, profiles)?);
        }
    }
    layers.push(defaults);
    let instructions = layers.iter().rev().filter_map(|layer| layer.system_prompt.clone()).collect();
    let mut settings = Session::default();
    for layer in layers {
        fill(&mut settings, layer);
    }
    // What the document says of its own tools, skills and agents is no setting that a profile could have.
    settings.tool_shapes.clone_from(&request.session.tool_shapes);
    settings.own_skills.clone_from(&request.session.own_skills);
    settings.agents.clone_from(&request.session.agents);
    if request.judge {
        // A judge routes. Unless it declares otherwise it has nothing to call and nothing to mull over, as in psi.
        settings.tools = request.session.tools.clone().or(Some(Vec::new()));
        settings.skills = request.session.skills.clone().or(Some(Vec::new()));
        settings.extensions = request.session.extensions.clone().or(Some(Vec::new()));
        settings.workflows = request.session.workflows.clone().or(Some(Vec::new()));
        settings.thinking_level = request.session.thinking_level.or(Some(ThinkingLevel::Off));
    }
    Ok(Effective { settings, instructions })
}

fn profile<'a>(name: &str, profiles: &'a IndexMap<String, Session>) -> Result<&'a Session, Failure> {
    profiles.get(name).ok_or_else(|| {
        let known = match profiles.is_empty() {
            true => "none".to_owned(),
            false => profiles.keys().map(String::as_str).collect::<Vec<_>>().join(", "),
        };
        let hint = hint(name, profiles.keys().map(String::as_str));
        failure("unknown-session-profile", format!("there is no session profile `{name}`; available: {known}{hint}"))
    })
}

/// Takes from a layer what the layers before it leave open. What is said, and to whom, is the step's alone and stays in the run;
/// texts go into the prompt.
fn fill(settings: &mut Session, layer: &Session) {
    macro_rules! take {
        ($($field:ident),*) => { $( if settings.$field.is_none() { settings.$field.clone_from(&layer.$field); } )* };
    }
    take!(
        model,
        session_profile,
        tools,
        skills,
        extensions,
        workflows,
        replace_system_prompt,
        prompt_mode,
        prompt_component_selection,
        thinking_level,
        temperature,
        response_mode,
        logprobs,
        top_logprobs,
        max_rounds,
        max_tool_calls,
        final_tool
    );
    macro_rules! take_generation {
        ($($field:ident),*) => { $( settings.generation.$field = settings.generation.$field.or(layer.generation.$field); )* };
    }
    take_generation!(max_tokens, top_p, top_k, frequency_penalty, presence_penalty);
    settings.generation.tool_required |= layer.generation.tool_required;
}
