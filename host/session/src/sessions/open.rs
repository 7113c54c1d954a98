//! Opens a session: what it may use, narrowed and checked; its prompt; its models.

use super::builder::{Extension, MissingTools};
use super::settings::{Effective, effective};
use super::{HostSessions, failure};
use crate::code::{self, RUN_CODE};
use crate::prompt::{Component, ComponentSelection, Entry, PromptContribution, PromptParts, SystemPrompt, assemble};
use crate::skills::Skill;
use crate::tools::{DELEGATE_TOOL, SessionTool, identity};
use futures_util::future::join_all;
use opcell_engine::approval::ToolApproval;
use opcell_engine::call::CodeTools;
use opcell_engine::offer::READ_RESULT;
use opcell_engine::ports::{Effects, Failure, OpenSession, OpenedSession};
use opcell_ir::agent;
use opcell_ir::ir::{ApprovalRules, Ask, Generation, ModelOverride, ModelSelection, Session};
use opcell_schema::shown;
use opcell_types::suggest::hint;
use opcell_types::{
    ToolDescription, Value,
    text::{cleaned, is_invisible},
};
use std::collections::{HashMap, HashSet};

/// A session but for its models.
pub(super) struct Assembled {
    pub(super) prompt: SystemPrompt,
    /// The tools that the model calls itself.
    pub(super) tools: Vec<ToolDescription>,
    /// The tools that it calls by programs.
    pub(super) code: Option<Box<CodeTools>>,
    approvals: Vec<ToolApproval>,
    settings: Session,
    ceiling: Option<Session>,
}

/// The present descriptions of outside tools, as far as a session declares them.
#[derive(Default)]
pub(super) struct Current {
    /// As they describe themselves.
    descriptions: HashMap<String, ToolDescription>,
    /// Those that are not there, with the reason.
    gone: HashMap<String, String>,
}

/// A tool that a session has.
pub(super) struct Allowed {
    pub(super) description: ToolDescription,
    pub(super) lambda: Option<String>,
}

impl HostSessions {
    /// Asks the tools that a session declares what they are now.
    ///
    /// # Errors
    /// With the first that is not there, unless the host withholds such tools.
    pub(super) async fn current_tools(&self, request: &OpenSession) -> Result<Current, Failure> {
        let Effective { settings, .. } = effective(request, &self.profiles, &self.defaults)?;
        let mut current = Current::default();
        let Some(declared) = &settings.tools else { return Ok(current) };
        let names: Vec<&String> = unique(declared).collect();
        let asked = join_all(names.iter().map(|name| self.tools.current(name))).await;
        for (name, answer) in names.into_iter().zip(asked) {
            match answer {
                Ok(None) => {}
                Ok(Some(description)) => drop(current.descriptions.insert(name.clone(), description)),
                Err(failure) if self.missing_tools == MissingTools::Withhold => {
                    current.gone.insert(name.clone(), failure.message);
                }
                Err(failure) => {
                    let message = format!("the session declares the tool `{name}`: {}", failure.message);
                    return Err(Failure { message, ..failure });
                }
            }
        }
        Ok(current)
    }

    pub(super) fn open_session(&self, request: &OpenSession, current: &Current) -> Result<OpenedSession, Failure> {
        let Assembled { mut prompt, tools, code, approvals, mut settings, ceiling } =
            self.assemble(request, current)?;
        let tenant = request.context.tenant.as_deref();
        let models = self.models.select_for(settings.model.as_ref(), tenant);
        let models = models.map_err(|error| failure("no-model", error.to_string()))?;
        if let Some(compaction) = &mut settings.compaction
            && let Some(summaries) = compaction.model.take()
        {
            let selected = self.models.select_for(Some(&ModelSelection::Id(summaries)), tenant);
            let selected = selected.map_err(|error| failure("no-model", format!("`compaction.model`: {error}")))?;
            compaction.model = selected.into_iter().next();
        }
        let summaries = settings.compaction.as_ref().and_then(|compaction| compaction.model.as_ref());
        let summaries = summaries.filter(|model| !models.contains(model));
        let windows = models.iter().chain(summaries).map(|model| self.window_of(model)).collect();
        // Another tool has the name: results come cut.
        let is_free = !tools.is_empty() && !tools.iter().any(|tool| tool.name == READ_RESULT);
        let result_limit = is_free.then(|| settings.result_limit.unwrap_or_else(|| self.tools.shown_limit()));
        let lacks =
            code.as_ref().zip(self.programs.as_ref()).and_then(|(code, programs)| programs.lacks(code.language));
        if let Some(why) = lacks {
            return Err(failure("code-unavailable", why));
        }
        let augmenters = if request.judge { &[][..] } else { &self.augmenters };
        if let Some((augmenter, why)) = augmenters.iter().find_map(|it| Some((&it.operation, it.problem.as_ref()?))) {
            let message = format!("the project has the augmenter `{augmenter}` for every session: {why}");
            return Err(failure("no-augmenter", message));
        }
        let augmenters = augmenters.iter().map(|augmenter| augmenter.operation.clone()).collect();
        if settings.logprobs == Some(true) {
            prompt.notes.extend(models.iter().filter_map(|model| self.models.lacks_logprobs(model)));
        }
        let sections = serde_json::to_value(&prompt).map_err(|error| failure("prompt", error.to_string()))?;
        let changes_nothing =
            |name: &str| self.tools.find(name).is_some_and(|offered| offered.tool.effects() == Effects::Pure);
        let names = tools.iter().map(|tool| &tool.name);
        let parallel_tools = names.filter(|name| changes_nothing(name)).cloned().collect();
        let sections = Value::from(sections);
        let narrowing = ceiling.map(Box::new);
        Ok(OpenedSession {
            system: prompt.text(),
            sections,
            models,
            tools,
            settings,
            parallel_tools,
            narrowing,
            approvals,
            code,
            augmenters,
            windows,
            result_limit,
        })
    }

    /// The rules for calls of a tool that wait for a person; `None` when none does.
    pub(super) fn approval(
        &self,
        tool: &ToolDescription,
        settings: &Session,
        current: &Current,
    ) -> Option<ToolApproval> {
        let is_agent = settings.agents.contains_key(&tool.name);
        let offered = self.tools.find(if is_agent { DELEGATE_TOOL } else { &tool.name });
        let mut rules = ApprovalRules::default();
        let names = [tool.name.as_str(), offered.map_or("", |offered| &offered.tool.description().name)];
        let of_session = self.approve.rules().iter().chain(settings.approve.rules());
        rules.add(&of_session.filter(|rule| rule.is_for(&names)).cloned().collect::<Vec<_>>().into());
        if let Some(offered) = offered {
            rules.add(&offered.approve);
        }
        let asks = rules.rules().iter().any(|rule| rule.ask != Ask::Never);
        let effects = match offered {
            Some(offered) if !is_agent => offered.tool.effects(),
            _ => Effects::Once,
        };
        let offered = offered.filter(|_| asks)?;
        let description = current.descriptions.get(&tool.name).unwrap_or(&offered.description);
        let identity = identity(&*offered.tool, description);
        let approved = offered.approved.clone();
        Some(ToolApproval { tool: tool.name.clone(), effects, identity, rules, approved })
    }

    pub(super) fn assemble(&self, request: &OpenSession, current: &Current) -> Result<Assembled, Failure> {
        let Effective { mut settings, mut instructions, narrowed, ceiling } =
            effective(request, &self.profiles, &self.defaults)?;
        self.override_for_model(&mut settings, &mut instructions);
        if let (Some((kind, name)), MissingTools::Refuse) = (narrowed.first(), self.missing_tools) {
            return Err(failure("narrowed", without(kind, name)));
        }
        let selection = match &settings.prompt_component_selection {
            None => None,
            Some(value) => {
                ComponentSelection::parse(value).map_err(|error| failure("invalid-session", error.to_string()))?
            }
        };
        let extensions = match (request.judge, &settings.extensions) {
            (true, None) => self.extensions_of(settings.tools.as_deref().unwrap_or_default()),
            _ => self.allowed_extensions(&settings)?,
        };
        let (mut tools, unavailable_tools) =
            self.allowed_tools(&settings, &extensions, &request.engine_tools, current)?;
        let workflows = self.allowed_workflows(&settings, &mut tools)?;
        let skills = self.allowed_skills(&settings)?;
        let approvals: Vec<ToolApproval> =
            tools.iter().filter_map(|tool| self.approval(&tool.description, &settings, current)).collect();
        settings.tools = Some(tools.iter().map(|tool| tool.description.name.clone()).collect());
        let mut by_code = self.by_code(&settings, &mut tools, &request.engine_tools, &approvals)?;
        let parts = PromptParts {
            mode: settings.prompt_mode.unwrap_or_default(),
            tools: tools
                .iter()
                .map(|tool| {
                    Entry::new(&tool.description.name, &tool.description.description).with_lambda(tool.lambda.clone())
                })
                .collect(),
            unavailable_tools,
            code: by_code.as_ref().map(|by_code| by_code.part.clone()),
            contributions: extensions
                .iter()
                .filter_map(|extension| {
                    let (priority, text) = extension.contribution.clone()?;
                    Some(PromptContribution { extension: extension.name.clone(), priority, text })
                })
                .collect(),
            extensions: extensions
                .iter()
                .map(|extension| {
                    Entry::new(&extension.name, &extension.description).with_lambda(extension.lambda.clone())
                })
                .collect(),
            context_files: self.context_files.clone(),
            runtime_metadata: (self.runtime_metadata)(),
            replacement: settings.replace_system_prompt.take(),
            skills,
            workflows,
            instructions,
            selection,
        };
        let names = |entries: &[Entry]| Some(entries.iter().map(|entry| entry.name.clone()).collect());
        settings.skills = names(&parts.skills);
        settings.extensions = names(&parts.extensions);
        settings.workflows = names(&parts.workflows);
        let mut prompt = assemble(&parts);
        prompt
            .notes
            .extend(narrowed.iter().map(|(kind, name)| format!("{}; it goes on without it", without(kind, name))));
        prompt.notes.extend(parts.unavailable_tools.iter().map(|name| self.withheld(name, current)));
        prompt.notes.extend(approvals.iter().map(|approval| format!("{} {}", approval.tool, approval.describe())));
        let mut tools: Vec<ToolDescription> =
            tools.into_iter().map(|tool| tool.description.with_results(None)).collect();
        if let Some(by_code) = &mut by_code
            && prompt.section(Component::Tools).is_none()
            && let Some(runs) = tools.iter_mut().find(|tool| tool.name == RUN_CODE)
        {
            *runs = code::description(by_code.tools.language, Some(&by_code.part.text));
        }
        let code = by_code.map(|by_code| Box::new(by_code.tools));
        Ok(Assembled { prompt, tools, code, approvals, settings, ceiling })
    }

    /// Applies the document's settings for the model that will answer first, by its whole id or without its provider.
    fn override_for_model(&self, settings: &mut Session, instructions: &mut Vec<String>) {
        if settings.model_overrides.is_empty() {
            return;
        }
        let Some(model) = self.models.select(settings.model.as_ref()).ok().and_then(|models| models.into_iter().next())
        else {
            return;
        };
        let bare = model.split_once('/').map_or(model.as_str(), |(_, id)| id);
        let found = settings.model_overrides.get(&model).or_else(|| settings.model_overrides.get(bare)).cloned();
        let Some(ModelOverride { prefix, suffix, system_prompt, temperature, generation }) = found else { return };
        // The session's own layer is the innermost one.
        let own = system_prompt.or_else(|| instructions.pop()).unwrap_or_default();
        instructions.push([prefix.unwrap_or_default(), own, suffix.unwrap_or_default()].concat());
        settings.temperature = temperature.or(settings.temperature);
        let kept = settings.generation;
        settings.generation = Generation {
            max_tokens: generation.max_tokens.or(kept.max_tokens),
            top_p: generation.top_p.or(kept.top_p),
            top_k: generation.top_k.or(kept.top_k),
            frequency_penalty: generation.frequency_penalty.or(kept.frequency_penalty),
            presence_penalty: generation.presence_penalty.or(kept.presence_penalty),
            tool_required: kept.tool_required,
        };
    }

    /// The extensions that these tools belong to.
    fn extensions_of(&self, tools: &[String]) -> Vec<&Extension> {
        let owners: HashSet<&str> = self
            .tools
            .tools()
            .filter(|tool| tools.contains(&tool.description.name))
            .filter_map(|tool| tool.extension.as_deref())
            .collect();
        self.extensions.iter().filter(|extension| owners.contains(extension.name.as_str())).collect()
    }

    fn allowed_extensions(&self, settings: &Session) -> Result<Vec<&Extension>, Failure> {
        let Some(declared) = &settings.extensions else { return Ok(self.extensions.iter().collect()) };
        let known: Vec<_> = self.extensions.iter().map(|extension| extension.name.as_str()).collect();
        unique(declared)
            .map(|name| {
                let found = self.extensions.iter().find(|extension| extension.name == *name);
                found.ok_or_else(|| unknown("extension", name, &known))
            })
            .collect()
    }

    /// The host's tools that the session declares, or all of them, without those of extensions that it leaves out; then
    /// the engine's. Beside them the declared tools that are not there, where that is allowed.
    fn allowed_tools(
        &self,
        settings: &Session,
        extensions: &[&Extension],
        engine_tools: &[ToolDescription],
        current: &Current,
    ) -> Result<(Vec<Allowed>, Vec<String>), Failure> {
        let belongs = |extension: &Option<String>| {
            extension.as_ref().is_none_or(|name| extensions.iter().any(|allowed| allowed.name == *name))
        };
        let is_engine_tool = |name: &str| engine_tools.iter().any(|tool| tool.name == name);
        let is_agent = |name: &str| settings.agents.contains_key(name);
        let offered: Vec<_> = self.tools.tools().filter(|tool| belongs(&tool.extension)).collect();
        let (mut allowed, mut unavailable) = (Vec::new(), Vec::new());
        match &settings.tools {
            None => {
                let has = |tool: &SessionTool| tool.skill.as_ref().is_none_or(|skill| self.has_skill(settings, skill));
                let own = offered.iter().filter(|tool| !tool.by_declaration && !is_agent(tool.name()) && has(tool));
                allowed.extend(own);
            }
            Some(declared) => {
                let known: Vec<_> = offered.iter().map(|tool| tool.name()).collect();
                for name in unique(declared).filter(|name| !is_engine_tool(name) && !is_agent(name)) {
                    match offered.iter().find(|tool| tool.name() == name && !current.gone.contains_key(name)) {
                        Some(tool) => allowed.push(*tool),
                        None if self.missing_tools == MissingTools::Withhold => unavailable.push(name.clone()),
                        None if settings.tool_shapes.contains_key(name) => return Err(unbound_tool(name)),
                        None if let Some(left_out) = self.left_out(name) => {
                            return Err(failure("unknown-tool", left_out));
                        }
                        None => return Err(missing_tool(name, &known)),
                    }
                }
            }
        }
        if !settings.agents.is_empty() && self.tools.find(DELEGATE_TOOL).is_none() {
            return Err(missing_tool(DELEGATE_TOOL, &[]));
        }
        if let Some(clash) = settings.agents.keys().find(|name| is_engine_tool(name)) {
            let message = format!("the agent `{clash}` has the same name as a tool of the workflow");
            return Err(failure("tool-clash", message));
        }
        if let Some(clash) = allowed.iter().find(|tool| is_engine_tool(tool.name())) {
            let message = format!("the host tool `{}` has the same name as a tool of the workflow", clash.name());
            return Err(failure("tool-clash", message));
        }
        let host = allowed.into_iter().map(|tool| match settings.tool_shapes.get(tool.name()) {
            // The document's own words; the call has to pass both schemas.
            Some(shape) => {
                let (description, parameters) = (shape.description.as_str(), shape.parameters.clone());
                let description = visible(ToolDescription::new(tool.name(), description, parameters));
                Allowed { description, lambda: None }
            }
            None => {
                let description = current.descriptions.get(tool.name()).unwrap_or(&tool.description);
                Allowed { description: description.clone(), lambda: tool.lambda.clone() }
            }
        });
        let agents = settings.agents.iter().map(|(name, agent)| {
            let description = visible(ToolDescription::new(name, agent.description.as_str(), agent::parameters()));
            Allowed { description, lambda: None }
        });
        let engine = engine_tools.iter().map(|tool| Allowed { description: visible(tool.clone()), lambda: None });
        Ok((host.chain(agents).chain(engine).collect(), unavailable))
    }

    /// A tool that is there, and that the session does not have because it leaves the tool's extension out.
    fn left_out(&self, name: &str) -> Option<String> {
        let extension = self.tools.find(name)?.extension.as_ref()?;
        Some(format!(
            "the session declares the tool `{name}` and leaves its extension out: add `{extension}` to its extensions"
        ))
    }

    /// The note for people about a declared tool that does not exist.
    fn withheld(&self, name: &str, current: &Current) -> String {
        if let Some(why) = current.gone.get(name) {
            return format!("the session declares the tool `{name}` and continues without it: {why}");
        }
        if let Some(left_out) = self.left_out(name) {
            return format!("{left_out}; it goes on without it");
        }
        let hint = hint(name, self.tools.tools().map(|tool| tool.name()));
        format!(
            "the session declares the tool `{name}`, which does not exist, and continues without it{hint}{}",
            remark(name)
        )
    }

    /// Declaring workflows brings the `delegate` tool; a session without the tool has no workflows, and one without
    /// workflows not the tool.
    fn allowed_workflows(&self, settings: &Session, tools: &mut Vec<Allowed>) -> Result<Vec<Entry>, Failure> {
        let names = self.workflows.as_ref().map(|workflows| workflows.names()).unwrap_or_default();
        let known: Vec<_> = names.iter().map(String::as_str).collect();
        let has_tool = tools.iter().any(|tool| tool.description.name == DELEGATE_TOOL);
        let find = |name: &str| self.workflows.as_ref().and_then(|workflows| workflows.find(name));
        let entry = |name: &str, description: Option<&String>| Entry::new(name, description.map_or("", String::as_str));
        let mut entries = Vec::new();
        match &settings.workflows {
            Some(declared) => {
                for name in unique(declared) {
                    let workflow = find(name).ok_or_else(|| unknown("workflow", name, &known))?;
                    entries.push(entry(name, workflow.description.as_ref()));
                }
                if !entries.is_empty() && !has_tool {
                    let tool = self.tools.find(DELEGATE_TOOL);
                    let tool = tool.ok_or_else(|| missing_tool(DELEGATE_TOOL, &[]))?;
                    tools.push(Allowed { description: tool.description.clone(), lambda: tool.lambda.clone() });
                }
            }
            None if has_tool => {
                for name in &known {
                    if let Some(workflow) = find(name).filter(|workflow| workflow.advertise) {
                        entries.push(entry(name, workflow.description.as_ref()));
                    }
                }
            }
            None => {}
        }
        if entries.is_empty() {
            tools.retain(|tool| tool.description.name != DELEGATE_TOOL);
        }
        Ok(entries)
    }

    fn has_skill(&self, settings: &Session, name: &str) -> bool {
        match &settings.skills {
            None => self.skills.find(name).is_ok_and(Skill::is_offered),
            Some(declared) => declared.iter().any(|declared| declared == name),
        }
    }

    fn allowed_skills(&self, settings: &Session) -> Result<Vec<Entry>, Failure> {
        let entry = |skill: &Skill| {
            Entry::new(&skill.name, &skill.description).with_lambda(skill.lambda.clone()).at(skill.location())
        };
        match &settings.skills {
            None => Ok(self.skills.skills().filter(|skill| skill.is_offered()).map(entry).collect()),
            Some(declared) => unique(declared)
                .map(|name| {
                    self.skills.find(name).map(entry).map_err(|error| failure("unknown-skill", error.to_string()))
                })
                .collect(),
        }
    }
}

fn without(kind: &str, name: &str) -> String {
    format!(
        "the session declares the {kind} `{name}`, which the session or the step that called its workflow does not have"
    )
}

/// The names in order, each once.
fn unique(names: &[String]) -> impl Iterator<Item = &String> {
    let mut seen = HashSet::new();
    names.iter().filter(move |name| seen.insert(*name))
}

fn missing_tool(name: &str, known: &[&str]) -> Failure {
    let mut failure = unknown("tool", name, known);
    failure.message.push_str(remark(name));
    failure
}

/// Why a tool may not be there.
fn remark(name: &str) -> &'static str {
    match name {
        "bash" => ". It runs commands outside any sandbox, so the operator must enable it",
        DELEGATE_TOOL => ". This host does not let sessions delegate",
        _ if name.starts_with("skill/") => {
            ". Scripts of a skill are tools if they are JavaScript (.js) or Python (.py) and the project has a table \
             `[skills.NAME]`; a shell script would run outside of any cell, with the rights of the user"
        }
        _ => "",
    }
}

fn unbound_tool(name: &str) -> Failure {
    failure(
        "unbound-tool",
        format!(
            "the document declares only the interface of the tool `{name}`: bind it to an operation or a host tool"
        ),
    )
}

fn unknown(kind: &str, name: &str, known: &[&str]) -> Failure {
    let listed = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    let hint = hint(name, known.iter().copied());
    failure(
        &format!("unknown-{kind}"),
        format!("the session declares the {kind} `{name}`, which does not exist; available: {listed}{hint}"),
    )
}

/// A tool in the words of a document, without what no person sees in it. Tools of plugins and servers come cleaned.
fn visible(tool: ToolDescription) -> ToolDescription {
    let parameters = match tool.parameters.to_json().contains(is_invisible) {
        true => Value::from(shown::schema(&serde_json::Value::from(&tool.parameters))),
        false => tool.parameters,
    };
    ToolDescription::new(tool.name, cleaned(&tool.description), parameters)
}
