//! The prompts that the models of a workflow would get, without asking any.
//!
//! The system prompt is the very one that a run's session gets. The conversation is what is known before a run:
//! references to the input are filled in when there is one, and every other reference stands as `⟨step plan: text⟩`.

use crate::{host::Host, report::Rejected, run::Workflow};
use opcell_engine::{
    Program, offer,
    ports::{Failure, OpenSession},
};
use opcell_ir::{
    Diagnostic, WorkflowIr,
    diagnostic::did_you_mean,
    expr::{Context, Expression},
    interpolate,
    ir::{
        Callee, Contribution, Form, Judge, Printing, PromptMode, Session, SourceRef, SourceSpec, Step, StepName,
        ValueSpec,
    },
    print,
    resolve::{self, ResolveError, Scope},
    template,
};
use opcell_session::prompt::{SystemPrompt, tokens};
use opcell_types::{CallContext, ToolDescription, Value, value::Map};
use serde::Serialize;
use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

/// The request for a workflow's prompts.
#[derive(Debug, Clone, Default)]
pub struct PromptRequest {
    /// One step; absent: every session step and every LLM judge.
    pub step: Option<String>,
    /// The run's `workflow-input`.
    pub input: Option<Value>,
    /// In place of the mode that the session has.
    pub mode: Option<PromptMode>,
}

/// The prompt of one session.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct StepPrompt {
    /// The workflow that the step is in, where it is one that this workflow delegates to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<Arc<str>>,
    /// The step that delegates to that workflow, and whose settings its sessions inherit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub called_by: Option<StepName>,
    /// Name of the step.
    pub step: StepName,
    /// `true` if this is the session of the step's judge.
    pub judge: bool,
    /// The system prompt.
    #[serde(flatten)]
    pub system: SystemPrompt,
    /// The tools that the model is sent beside it, with their parameters.
    pub tools: Vec<ToolDescription>,
    /// The messages at the start, in order.
    pub conversation: Vec<PromptMessage>,
    /// The model that would be asked first and its prices, where the project lists them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<PromptPrice>,
}

/// The price of a prompt's tokens, in US dollars per million.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct PromptPrice {
    /// The model, as `provider/model`.
    pub model: String,
    /// Cost of tokens that the provider reads from its cache.
    pub from_cache: f64,
    /// Cost of tokens that it reads and keeps.
    pub into_cache: f64,
    /// The day of Opcell's catalogue, if the prices are from it and not the project's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catalogue: Option<String>,
}

/// One message that is there before the model answers.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct PromptMessage {
    /// The prompt group, of a session that has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<Arc<str>>,
    /// The role of its author.
    pub role: Arc<str>,
    /// Text of the message, its references resolved as far as known.
    pub text: String,
    /// The text's length in UTF-8.
    pub bytes: usize,
    /// About how many tokens, as in [`opcell_session::prompt::Section::tokens`].
    pub tokens: usize,
}

impl Host {
    /// The prompts of a workflow's sessions on this host, and of those that it delegates to by name. No model is asked,
    /// and none has to be there.
    ///
    /// # Errors
    /// When the workflow has no such step or the step no session, or a session declares what this host does not have.
    pub fn prompts(&self, workflow: &Workflow, request: &PromptRequest) -> Result<Vec<StepPrompt>, Rejected> {
        let mut prompts = self.own_prompts(workflow, None, request)?;
        // Each delegate is followed once, so that workflows that call one another end.
        let mut followed = HashSet::new();
        let mut shown: Vec<(Arc<str>, Option<Session>)> = vec![(workflow.ir().name.clone(), None)];
        let mut open = VecDeque::from([(workflow.clone(), None)]);
        while let Some((caller, inherited)) = open.pop_front() {
            let ir = caller.ir();
            for Callee { name, step, inherited } in ir.callees(inherited.as_ref()) {
                if !followed.insert((ir.name.clone(), step.clone()))
                    || shown.iter().any(|(known, settings)| *known == name && *settings == inherited)
                {
                    continue;
                }
                shown.push((name.clone(), inherited.clone()));
                let Some(callee) = self.callee(&caller, &name) else { continue };
                let found = self.own_prompts(&callee, inherited.as_ref(), request)?;
                let of = |prompt: StepPrompt| StepPrompt {
                    workflow: Some(name.clone()),
                    called_by: Some(step.clone()),
                    ..prompt
                };
                prompts.extend(found.into_iter().map(of));
                open.push_back((callee, inherited));
            }
        }
        if let Some(name) = request.step.as_ref().filter(|_| prompts.is_empty()) {
            return Err(workflow.reject(vec![no_session(workflow.ir(), name)]));
        }
        Ok(prompts)
    }

    /// A workflow that another one calls; one that is not there is for the check to report.
    fn callee(&self, caller: &Workflow, name: &Arc<str>) -> Option<Workflow> {
        match caller.ir().workflows.iter().find(|own| own.name == *name) {
            Some(own) => Some(caller.with_ir(own.clone())),
            None => self.open(name).ok(),
        }
    }

    fn own_prompts(
        &self,
        workflow: &Workflow,
        inherited: Option<&Session>,
        request: &PromptRequest,
    ) -> Result<Vec<StepPrompt>, Rejected> {
        let ir = workflow.ir();
        let wanted = |step: &Step| request.step.as_ref().is_none_or(|name| name.as_str() == step.name.as_ref());
        // What leaves its entry to a run has the same prompts wherever that begins.
        let entered = workflow.ir().steps.first().filter(|_| ir.entry.as_deref() == Some(""));
        let entered = entered.and_then(|first| workflow.entered_at(&first.name));
        let program = Program::new(entered.as_ref().map_or(ir, Workflow::ir).clone())
            .map_err(|error| workflow.reject(vec![Diagnostic::error("invalid-workflow", error.to_string())]))?;
        let mut prompts = Vec::new();
        for (index, step) in ir.steps.iter().enumerate().filter(|(_, step)| wanted(step)) {
            let form = match &step.form {
                Form::Session { session } => Some((&**session, "session", false)),
                _ => None,
            };
            let judge = match &step.judge {
                Some(Judge::Llm { session, .. }) => Some((session.as_ref(), "judge.session", true)),
                _ => None,
            };
            for (session, path, judge) in form.into_iter().chain(judge) {
                let prompt =
                    self.step_prompt(&program, step, (session, inherited), judge, request).map_err(|failure| {
                        let message = format!("Step '{}': {}: {}", step.name, failure.reason, failure.message);
                        let finding =
                            Diagnostic::error("session-failed-to-open", message).path(format!("steps[{index}].{path}"));
                        workflow.reject(vec![workflow.locate(finding)])
                    })?;
                prompts.push(prompt);
            }
        }
        Ok(prompts)
    }

    fn step_prompt(
        &self,
        program: &Program,
        step: &Step,
        (declared, inherited): (&Session, Option<&Session>),
        judge: bool,
        request: &PromptRequest,
    ) -> Result<StepPrompt, Failure> {
        let before = PreviewScope::new(program.ir(), request.input.as_ref());
        let mut session = declared.clone();
        session.system_prompt = declared.system_prompt.as_ref().map(|text| before.instructions(text, declared));
        session.prompt_mode = request.mode.or(session.prompt_mode);
        let context = CallContext { step: step.name.clone(), ..CallContext::default() };
        let engine_tools = if judge { Vec::new() } else { offer::tools(program, step) };
        let inherited = inherited.cloned();
        let request = OpenSession { context, session, judge, engine_tools, inherited };
        let (system, tools) = self.sessions().prompt(&request)?;
        let price = self.sessions().listed_model(&request).and_then(|listed| {
            let (from_cache, into_cache) = listed.config.cache_costs()?;
            let catalogue = listed.prices_of.map(str::to_owned);
            Some(PromptPrice { model: listed.full_id(), from_cache, into_cache, catalogue })
        });
        let mut conversation = before.conversation(None, &declared.contributions);
        for group in &declared.prompts {
            conversation.extend(before.conversation(Some(&group.name), &group.contributions));
        }
        let step = step.name.clone();
        Ok(StepPrompt { workflow: None, called_by: None, step, judge, system, tools, conversation, price })
    }
}

fn no_session(ir: &WorkflowIr, name: &str) -> Diagnostic {
    let has_session =
        |step: &&Step| matches!(step.form, Form::Session { .. }) || matches!(step.judge, Some(Judge::Llm { .. }));
    let with: Vec<&str> = ir.steps.iter().filter(has_session).map(|step| step.name.as_ref()).collect();
    let message = match ir.step(name) {
        Some(_) => format!("step '{name}' uses no model"),
        None => format!("the workflow has no step '{name}'"),
    };
    let help = match did_you_mean(name, with.iter().copied()) {
        Some(meant) => format!("did you mean '{meant}'?"),
        None if with.is_empty() => "no step of this workflow uses a model".to_owned(),
        None => format!("the steps that use a model are: {}", with.join(", ")),
    };
    Diagnostic::error("no-session", message).help(help)
}

/// The placeholder of an input that is not known.
const UNKNOWN_INPUT: &str = "⟨workflow input⟩";

/// A run before it starts: the input may be known, nothing else is.
struct PreviewScope<'a> {
    input: Option<&'a Value>,
    original: Option<&'a Value>,
    /// The declared inputs that are given, and the defaults of the others.
    inputs: Value,
    printing: Printing,
}

impl<'a> PreviewScope<'a> {
    fn new(ir: &WorkflowIr, input: Option<&'a Value>) -> Self {
        let original = input.map(|input| input.get("original").unwrap_or(input));
        let defaults =
            ir.inputs.iter().filter_map(|(name, declared)| Some((name.clone().into(), declared.default.clone()?)));
        let mut inputs: Map = defaults.collect();
        let given = input.and_then(Value::as_object).into_iter().flat_map(|given| given.iter());
        inputs.extend(given.map(|(name, value)| (name.clone(), value.clone())));
        Self { input, original, inputs: Value::from(inputs), printing: ir.dialect.printing }
    }

    fn conversation(&self, prompt: Option<&Arc<str>>, contributions: &[Contribution]) -> Vec<PromptMessage> {
        let parts = contributions.iter().map(|contribution| self.known_part(contribution)).flat_map(|contribution| {
            resolve::conversation(std::slice::from_ref(&contribution), self)
                .unwrap_or_else(|error| vec![resolve::ConversationPart::user(format!("⟨{error}⟩"))])
        });
        parts
            .map(|part| {
                let text = part.text().unwrap_or_else(|| part.message.to_json());
                let (bytes, tokens) = (text.len(), tokens(&text));
                PromptMessage { prompt: prompt.cloned(), role: part.role, text, bytes, tokens }
            })
            .collect()
    }

    /// A system prompt with its variables filled in.
    fn instructions(&self, text: &str, session: &Session) -> String {
        let values: HashMap<&str, String> =
            session.variables.iter().map(|(name, spec)| (name.as_ref(), self.variable(name, spec))).collect();
        template::render(text, |name| values.get(name).map(String::as_str)).unwrap_or_else(|_| text.to_owned())
    }

    fn variable(&self, name: &str, spec: &ValueSpec) -> String {
        let spec = match spec {
            ValueSpec::Source(spec) => ValueSpec::Source(self.known(spec)),
            other => other.clone(),
        };
        match resolve::value(&spec, self) {
            Ok(value) if value.as_str() == Some(UNKNOWN_INPUT) => format!("⟨{}⟩", name.trim()),
            Ok(value) if !value.is_nullish() => self.print(&value),
            _ => format!("⟨{}⟩", name.trim()),
        }
    }

    /// A contribution whose references to what is not there yet name the whole of it, so that nothing looks into a
    /// placeholder.
    fn known_part(&self, contribution: &Contribution) -> Contribution {
        match contribution {
            Contribution::Source(spec) => Contribution::Source(self.known(spec)),
            Contribution::Template(template) => {
                let mut template = template.clone();
                template.vars.values_mut().for_each(|spec| *spec = self.known(spec));
                Contribution::Template(template)
            }
            value @ Contribution::Value { .. } => value.clone(),
        }
    }

    fn known(&self, spec: &SourceSpec) -> SourceSpec {
        let is_known = match spec.from {
            SourceRef::WorkflowInput | SourceRef::WorkflowOriginal => self.input.is_some(),
            _ => false,
        };
        if is_known { spec.clone() } else { SourceSpec { path: None, projection: None, ..spec.clone() } }
    }
}

impl Scope for PreviewScope<'_> {
    fn input(&self) -> &Value {
        static UNKNOWN: std::sync::LazyLock<Value> = std::sync::LazyLock::new(|| Value::from(UNKNOWN_INPUT));
        self.input.unwrap_or(&UNKNOWN)
    }

    fn original(&self) -> &Value {
        static UNKNOWN: std::sync::LazyLock<Value> = std::sync::LazyLock::new(|| Value::from("⟨workflow original⟩"));
        self.original.unwrap_or(&UNKNOWN)
    }

    fn output(&self, step: &str, prompt: Option<&str>, key: &str) -> Option<Value> {
        let prompt = prompt.map(|prompt| format!(", prompt {prompt}")).unwrap_or_default();
        Some(Value::from(format!("⟨step {step}{prompt}: {key}⟩")))
    }

    fn yielded(&self, step: &str, field: &str) -> Option<Value> {
        Some(Value::from(format!("⟨step {step}: {field}⟩")))
    }

    fn artifact(&self, name: &str) -> Option<Value> {
        Some(Value::from(format!("⟨artifact {name}⟩")))
    }

    fn expression(&self, expression: &Expression) -> Result<Value, ResolveError> {
        let steps = Value::object::<&str>([]);
        expression
            .evaluate(&Context::new(&self.inputs, &steps))
            .map_err(|error| ResolveError::Expression { text: expression.text().to_owned(), problem: error.message })
    }

    fn print(&self, value: &Value) -> String {
        match self.printing {
            Printing::Edn => print::edn(value),
            Printing::Javascript => interpolate::stringify(value).into_owned(),
            Printing::Go => print::json(value),
        }
    }
}
