//! The settings of a session, in order of precedence: the step, its profile, what the run inherits, that's profile, the
//! host.

use super::failure;
use indexmap::IndexMap;
use opcell_engine::ports::{Failure, OpenSession};
use opcell_ir::ir::{Session, ThinkingLevel};
use opcell_types::suggest::hint;

/// The settings, and the layers of instruction text, outermost first.
pub(super) struct Effective {
    pub(super) settings: Session,
    pub(super) instructions: Vec<String>,
    /// The things that the session declares and its caller does not let it have: the kind and the name.
    pub(super) narrowed: Vec<(&'static str, String)>,
    /// The most that sessions of workflows that its model delegates to may have; `None` when nothing is narrowed.
    pub(super) ceiling: Option<Session>,
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
        settings.approve.add(&layer.approve);
    }
    // What the document says of its own tools, skills and agents is not a setting that a profile could have.
    settings.tool_shapes.clone_from(&request.session.tool_shapes);
    settings.own_skills.clone_from(&request.session.own_skills);
    settings.agents.clone_from(&request.session.agents);
    settings.guards.clone_from(&request.session.guards);
    settings.media.clone_from(&request.session.media);
    settings.model_overrides.clone_from(&request.session.model_overrides);
    if request.judge {
        // A judge routes. Unless it declares otherwise it has nothing to call and nothing to mull over, as in psi.
        settings.tools = request.session.tools.clone().or(Some(Vec::new()));
        settings.skills = request.session.skills.clone().or(Some(Vec::new()));
        // Declaring a tool of an extension declares the extension.
        settings.extensions = request.session.extensions.clone();
        settings.workflows = request.session.workflows.clone().or(Some(Vec::new()));
        settings.thinking_level = request.session.thinking_level.or(Some(ThinkingLevel::Off));
        settings.effort_override.clone_from(&request.session.effort_override);
        settings.code = request.session.code;
    }
    let narrowed = request.inherited.as_ref().map(|outer| narrow(&mut settings, outer)).unwrap_or_default();
    let ceiling = ceiling(request, profiles, &settings)?;
    Ok(Effective { settings, instructions, narrowed, ceiling })
}

/// Takes away what the caller does not have. A session that declares nothing of a kind has what its caller has of it.
fn narrow(settings: &mut Session, outer: &Session) -> Vec<(&'static str, String)> {
    let mut gone = Vec::new();
    let kinds = [
        ("tool", &mut settings.tools, &outer.tools),
        ("skill", &mut settings.skills, &outer.skills),
        ("extension", &mut settings.extensions, &outer.extensions),
        ("workflow", &mut settings.workflows, &outer.workflows),
    ];
    for (kind, own, outer) in kinds {
        let Some(outer) = outer else { continue };
        match own {
            None => *own = Some(outer.clone()),
            Some(own) => own.retain(|name| {
                let stays = outer.contains(name);
                if !stays {
                    gone.push((kind, name.clone()));
                }
                stays
            }),
        }
    }
    gone
}

/// Returns the workflow's narrowing of a session's capabilities, that of its profile included; the host's defaults are
/// no narrowing.
fn ceiling(
    request: &OpenSession,
    profiles: &IndexMap<String, Session>,
    settings: &Session,
) -> Result<Option<Session>, Failure> {
    let mut said: Vec<&Session> = std::iter::once(&request.session).chain(&request.inherited).collect();
    for session in [Some(&request.session), request.inherited.as_ref()].into_iter().flatten() {
        if let Some(name) = &session.session_profile {
            said.push(profile(name, profiles)?);
        }
    }
    let narrows = |of: fn(&Session) -> &Option<Vec<String>>| said.iter().any(|session| of(session).is_some());
    let ceiling = Session {
        tools: settings.tools.clone().filter(|_| narrows(|session| &session.tools)),
        skills: settings.skills.clone().filter(|_| narrows(|session| &session.skills)),
        extensions: settings.extensions.clone().filter(|_| narrows(|session| &session.extensions)),
        workflows: settings.workflows.clone().filter(|_| narrows(|session| &session.workflows)),
        // Whom a model calls is asked about as it is itself.
        approve: settings.approve.clone(),
        ..Session::default()
    };
    Ok((ceiling != Session::default()).then_some(ceiling))
}

pub(super) fn profile<'a>(name: &str, profiles: &'a IndexMap<String, Session>) -> Result<&'a Session, Failure> {
    profiles.get(name).ok_or_else(|| {
        let known = match profiles.is_empty() {
            true => "none".to_owned(),
            false => profiles.keys().map(String::as_str).collect::<Vec<_>>().join(", "),
        };
        let hint = hint(name, profiles.keys().map(String::as_str));
        failure("unknown-session-profile", format!("there is no session profile `{name}`; available: {known}{hint}"))
    })
}

/// Takes from a layer what the layers before it leave open. What is said, and to whom, is the step's alone and stays in
/// the run; texts go into the prompt.
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
        effort_override,
        speed_mode,
        temperature,
        response_mode,
        logprobs,
        top_logprobs,
        max_rounds,
        max_tool_calls,
        code,
        compaction,
        result_limit,
        final_tool
    );
    macro_rules! take_generation {
        ($($field:ident),*) => { $( settings.generation.$field = settings.generation.$field.or(layer.generation.$field); )* };
    }
    take_generation!(max_tokens, top_p, top_k, frequency_penalty, presence_penalty);
    settings.generation.tool_required |= layer.generation.tool_required;
}
