//! Checks that find before a run what the reference meets only in the middle of one: wrong expressions, references
//! without a value, values of another type than declared, and texts that look like something that they are not.

use super::{
    Issue,
    definition::{Body, Definition, Field, StepDefinition, Text},
    duration_ms, types,
    validate::{is_scanned, step_references},
};
use opcell_ir::{
    diagnostic::{Diagnostic, did_you_mean},
    expr::{Expression, Reference},
    interpolate::{Interpolation, value_spec},
    ir::ValueSpec,
    source::Span,
    transform::Shape,
};
use opcell_types::Value;
use petgraph::{
    algo::kosaraju_scc,
    graph::{DiGraph, NodeIndex},
};
use std::{
    cell::Cell,
    collections::{HashMap, HashSet},
};

/// The site of an expression, which decides what it may refer to and what the validator has already said about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Site {
    /// A step's input.
    Input,
    /// A step's output, which maps `$result`.
    Output,
    /// A guard, or what a conditional decides by.
    Condition,
    /// The list of an `each`.
    Each,
    /// Inside a transform, which has an element.
    Transform,
    /// The output of an exit.
    Exit,
    /// A workflow output.
    WorkflowOutput,
}

struct Checker<'a> {
    definition: &'a Definition,
    source: &'a str,
    order: HashMap<&'a str, usize>,
    grouped: HashSet<&'a str>,
    /// The workflow's inputs by name.
    inputs: HashMap<&'a str, &'a Field>,
    /// Bytes of the source that may still be searched for places.
    searchable: Cell<usize>,
    found: Vec<Diagnostic>,
}

/// Bytes of the source that are searched for places, all searches together.
const MAX_SEARCHED: usize = 64 << 20;

/// Warnings after which no more are looked for where each of many is about each of many others.
const MANY: usize = 10_000;

/// Everything that the checks find, as warnings.
pub(super) fn check(definition: &Definition, source: &str) -> Vec<Diagnostic> {
    let order = definition.steps.iter().enumerate().map(|(index, step)| (step.id.text.as_ref(), index)).collect();
    let grouped =
        definition.steps.iter().flat_map(StepDefinition::branch_steps).map(|name| name.text.as_ref()).collect();
    let inputs = definition.inputs.iter().map(|input| (input.name.text.as_ref(), input)).collect();
    let searchable = Cell::new(MAX_SEARCHED);
    let mut checker = Checker { definition, source, order, grouped, inputs, searchable, found: Vec::new() };
    for input in &definition.inputs {
        checker.literal(input, &format!("inputs.{}.default", input.name.text));
    }
    for (index, step) in definition.steps.iter().enumerate() {
        checker.step(step, &format!("steps[{index}]"));
    }
    for output in &definition.outputs {
        let path = format!("outputs.{}.value", output.name.text);
        checker.field(output, &path, None, Site::WorkflowOutput);
    }
    checker.exits();
    checker.endless_branches();
    checker.found
}

/// Returns the step that a validator's issue about an undefined one probably means.
pub(super) fn near_step<'d>(definition: &'d Definition, message: &str) -> Option<&'d str> {
    let name =
        message.split_once("references undefined step \"").or(message.split_once("References undefined step \""));
    let name = name?.1.strip_suffix('"')?;
    did_you_mean(name, definition.steps.iter().map(|step| step.id.text.as_ref()))
}

/// Returns the place of a validator's issue.
pub(super) fn place_of(definition: &Definition, issue: &Issue) -> Option<Span> {
    let path = issue.path.as_str();
    // Of several names, the one that the message is about.
    let named = |names: &[Text]| {
        let names = || names.iter();
        let quoted: HashSet<&str> = issue.message.split('"').skip(1).step_by(2).collect();
        let meant = names().find(|name| quoted.contains(name.text.as_ref()));
        meant
            .or_else(|| names().find(|name| issue.message.contains(name.text.as_ref())))
            .or_else(|| names().next())
            .map(|name| name.span)
    };
    let field = |fields: &[Field], name: &str| {
        fields.iter().find(|field| field.name.text.as_ref() == name).map(|field| field.value_span)
    };
    if let Some(rest) = path.strip_prefix("outputs.") {
        return field(&definition.outputs, rest.strip_suffix(".value").unwrap_or(rest));
    }
    let (index, rest) = path.strip_prefix("steps[")?.split_once(']')?;
    let step = definition.steps.get(index.parse::<usize>().ok()?)?;
    let span = |text: &Option<Text>| text.as_ref().map(|text| text.span);
    let place = match (rest.strip_prefix('.').unwrap_or(rest), &step.body) {
        ("id", _) => Some(step.id.span),
        ("each", _) => span(&step.each),
        ("delay", _) => span(&step.delay),
        ("condition", _) => span(&step.condition),
        ("tool", Body::Tool { tool }) => Some(tool.span),
        ("then", Body::Conditional { then, .. }) => named(then),
        ("else", Body::Conditional { otherwise: Some(names), .. }) => named(names),
        (output, Body::Exit { output_span, .. }) if output.starts_with("output") => Some(*output_span),
        (other, _) => {
            let name = other.strip_suffix(".value").unwrap_or(other);
            let input = name.strip_prefix("inputs.").and_then(|name| field(&step.inputs, name));
            input.or_else(|| field(&step.outputs, name.strip_prefix("outputs.")?))
        }
    };
    Some(place.unwrap_or(step.id.span))
}

impl<'a> Checker<'a> {
    fn warn(&mut self, code: &'static str, message: impl Into<String>, path: &str, span: Span) {
        self.found.push(Diagnostic::warning(code, message).path(path).at(span));
    }

    /// Says how to fix what was just found.
    fn help(&mut self, help: Option<String>) {
        if let Some(finding) = self.found.last_mut() {
            finding.help = help;
        }
    }

    fn step(&mut self, step: &'a StepDefinition, path: &str) {
        for input in &step.inputs {
            self.field(input, &format!("{path}.inputs.{}.value", input.name.text), Some(step), Site::Input);
        }
        for output in &step.outputs {
            self.field(output, &format!("{path}.outputs.{}.value", output.name.text), Some(step), Site::Output);
        }
        if let Some(condition) = &step.condition {
            self.text(condition, &format!("{path}.condition"), step, Site::Condition);
        }
        if let Some(each) = &step.each {
            self.text(each, &format!("{path}.each"), step, Site::Each);
            self.each_type(each, &format!("{path}.each"));
        }
        self.durations(step, path);
        self.modifiers(step, path);
        self.transformed(step, path);
        self.early_branches(step, path);
        match &step.body {
            Body::Filter { condition } => self.text(condition, &format!("{path}.where"), step, Site::Transform),
            Body::Map { expression, span } => self.map(expression, *span, step, &format!("{path}.expression")),
            Body::Exit { output: Some(output), output_span, .. } => {
                self.exit_output(output, *output_span, step, &format!("{path}.output"));
            }
            Body::Tool { .. } | Body::Sort { .. } | Body::Conditional { .. } | Body::Exit { .. } => {}
        }
    }

    /// A text that is always an expression.
    fn text(&mut self, text: &Text, path: &str, step: &'a StepDefinition, site: Site) {
        if let Some(tag) = text.tag.as_ref().filter(|tag| tag.starts_with('!')) {
            let rest = if text.text.is_empty() { String::new() } else { format!(" {}", text.text) };
            let message = format!(
                "YAML reads the unquoted `{tag}` as a tag, so that this is {}",
                if text.text.is_empty() {
                    "empty and never applies".to_owned()
                } else {
                    format!("only `{}`", text.text)
                }
            );
            self.warn("unquoted-bang", message, path, text.span);
            self.help(Some(format!("put it in quotes: '{tag}{rest}'")));
            return;
        }
        if text.text.is_empty() {
            return;
        }
        let expression = Expression::new(text.text.clone());
        self.expression(&expression, path, text.span, Some(step), site);
        if Interpolation::is_in(&text.text) {
            self.warn("template-not-resolved", "`${…}` is not resolved here", path, text.span);
            self.help(Some("write the expression itself, `$steps.name.output`".to_owned()));
        }
    }

    fn field(&mut self, field: &'a Field, path: &str, step: Option<&'a StepDefinition>, site: Site) {
        let Some(value) = &field.value else { return };
        match value_spec(value) {
            ValueSpec::Expression { expression } => {
                self.expression(&expression, path, field.value_span, step, site);
                self.types(field, &expression, path, step, site);
            }
            ValueSpec::Interpolation { interpolation } => {
                for expression in interpolation.expressions() {
                    self.expression(expression, path, field.value_span, step, site);
                }
                if let Some(expression) = interpolation.single() {
                    self.types(field, expression, path, step, site);
                } else if field.kind.text.as_ref() != "string" && site != Site::Output {
                    let message = format!(
                        "`{}` is declared `{}`, but a string with references in it stays a string",
                        field.name.text, field.kind.text
                    );
                    self.warn("type-conflict", message, path, field.value_span);
                }
            }
            _ => {
                self.literal(field, path);
                self.nested_references(value, path, field.value_span);
            }
        }
    }

    fn map(&mut self, expression: &Value, span: Span, step: &'a StepDefinition, path: &str) {
        for expression in Shape::from(expression.clone()).expressions() {
            self.expression(expression, path, span, Some(step), Site::Transform);
        }
        let mut values: Vec<&Value> = vec![expression];
        while let Some(value) = values.pop() {
            match value {
                Value::String(text) if !text.starts_with('$') && Interpolation::is_in(text) => {
                    let message = format!("`{text}` is taken as it is: a map's `expression` does not resolve `${{…}}`");
                    let place = self.find_in(span, text);
                    self.warn("template-not-resolved", message, path, place);
                }
                Value::Object(entries) => values.extend(entries.values()),
                Value::Array(_) => self.nested_references(value, path, span),
                _ => {}
            }
        }
    }

    fn exit_output(&mut self, output: &Value, span: Span, step: &'a StepDefinition, path: &str) {
        match output {
            Value::String(text) if !text.is_empty() => {
                let expression = Expression::new(text.clone());
                self.expression(&expression, path, span, Some(step), Site::Exit);
                if expression.syntax_error().is_some() {
                    self.help(Some("an exit's `output` text is always an expression; to end with a string, make it an object's value".to_owned()));
                }
            }
            Value::Object(entries) => {
                for (key, value) in entries.iter() {
                    let path = format!("{path}.{key}");
                    match value_spec(value) {
                        ValueSpec::Expression { expression } => {
                            self.expression(&expression, &path, span, Some(step), Site::Exit);
                        }
                        ValueSpec::Interpolation { interpolation } => {
                            for expression in interpolation.expressions() {
                                self.expression(expression, &path, span, Some(step), Site::Exit);
                            }
                        }
                        _ => self.nested_references(value, &path, span),
                    }
                }
            }
            _ => {}
        }
    }

    /// References inside arrays and objects stay text.
    fn nested_references(&mut self, value: &Value, path: &str, span: Span) {
        let mut values: Vec<&Value> = match value {
            Value::Array(items) => items.iter().collect(),
            Value::Object(entries) => entries.values().collect(),
            _ => return,
        };
        while let Some(value) = values.pop() {
            match value {
                Value::String(text) => {
                    let looks = ["$inputs", "$steps", "$item", "$result", "${inputs", "${steps", "${item", "${result"];
                    if looks.iter().any(|prefix| text.starts_with(prefix)) {
                        let message =
                            format!("`{text}` stays text: references inside arrays and objects are not resolved");
                        let place = self.find_in(span, text);
                        self.warn("nested-reference", message, path, place);
                        return;
                    }
                }
                Value::Array(items) => values.extend(items.iter()),
                Value::Object(entries) => values.extend(entries.values()),
                _ => {}
            }
        }
    }

    /// Returns the place of an expression's position in the file, if the file has the expression's text unchanged.
    fn place(&self, expression: &Expression, position: Option<usize>, span: Span) -> Span {
        let text = expression.text();
        if !self.may_search(span) {
            return span;
        }
        // A reference inside a template is compiled with its `$` put before it.
        let (needle, shift) = match self.source.get(span.start..span.end) {
            Some(slice) if slice.contains(text) => (text, 0),
            _ => (text.get(1..).unwrap_or_default(), 1),
        };
        let Some(start) = self.source.get(span.start..span.end).and_then(|slice| slice.find(needle)) else {
            return span;
        };
        let start = span.start + start;
        let Some(position) = position.map(|position| position.saturating_sub(shift)) else {
            return Span::new(start, start + needle.len());
        };
        let mut units = 0;
        let at = needle.char_indices().find(|(_, c)| {
            let here = units >= position;
            units += c.len_utf16();
            here
        });
        let at = at.map_or(needle.len(), |(at, _)| at);
        Span::new(start + at, start + needle.len())
    }

    fn expression(
        &mut self,
        expression: &Expression,
        path: &str,
        span: Span,
        step: Option<&'a StepDefinition>,
        site: Site,
    ) {
        if let Some(error) = expression.syntax_error() {
            let span = self.place(expression, error.position, span);
            let message = format!("`{}` is not an expression: {}", expression.text(), error.message);
            self.warn("expression-syntax", message, path, span);
            return;
        }
        let span = self.place(expression, None, span);
        for reference in expression.references() {
            self.reference(&reference, expression, path, span, step, site);
        }
    }

    fn reference(
        &mut self,
        reference: &Reference,
        expression: &Expression,
        path: &str,
        span: Span,
        step: Option<&'a StepDefinition>,
        site: Site,
    ) {
        let first = reference.path.first().map(AsRef::as_ref);
        match (reference.root.as_ref(), first) {
            ("inputs", Some(name)) if name != "length" => {
                if !self.inputs.contains_key(name) {
                    let inputs = &self.definition.inputs;
                    let help = did_you_mean(name, inputs.iter().map(|input| input.name.text.as_ref()))
                        .map(|meant| format!("did you mean `$inputs.{meant}`?"));
                    let message = format!("`$inputs.{name}` is not a declared input of the workflow");
                    self.warn("undeclared-input", message, path, span);
                    self.help(help);
                }
            }
            ("inputs", _) | ("steps", None) => {}
            ("steps", Some(name)) => self.step_reference(name, reference, expression, path, span, step, site),
            ("item" | "index", _) => {
                let has_element = site == Site::Transform
                    || (matches!(site, Site::Input | Site::Output) && step.is_some_and(|step| step.each.is_some()));
                if !has_element {
                    let message =
                        format!("`${}` is undefined here: only `each` and transforms have an element", reference.root);
                    self.warn("no-element", message, path, span);
                }
            }
            ("result", _) if site != Site::Output && site != Site::WorkflowOutput => {
                self.warn("no-result", "`$result` is undefined here: only a step's outputs map it", path, span);
            }
            ("result", _) => {}
            (root, _) => {
                let help = did_you_mean(root, ["inputs", "steps", "item", "index", "result"])
                    .map(|meant| format!("did you mean `${meant}`?"));
                let message = format!("`${root}` is unknown, and fails the run when it is evaluated");
                self.warn("unknown-reference", message, path, span);
                self.help(help);
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one reference and everything about where it stands")]
    fn step_reference(
        &mut self,
        name: &str,
        reference: &Reference,
        expression: &Expression,
        path: &str,
        span: Span,
        step: Option<&'a StepDefinition>,
        site: Site,
    ) {
        let text = expression.text();
        // What the validator looks at it has reported as an error.
        let scanned = match site {
            Site::Input | Site::Output | Site::WorkflowOutput => is_scanned(text),
            Site::Condition | Site::Each | Site::Exit => true,
            Site::Transform => false,
        } && step_references(text).contains(&name);
        let own = step.and_then(|step| self.order.get(step.id.text.as_ref()).copied());
        let is_grouped = step.is_some_and(|step| self.grouped.contains(step.id.text.as_ref()));
        match self.order.get(name).copied() {
            None if !scanned => {
                let help =
                    did_you_mean(name, self.order.keys().copied()).map(|meant| format!("did you mean `{meant}`?"));
                self.warn("unknown-step", format!("there is no step `{name}`"), path, span);
                self.help(help);
            }
            Some(at) if !scanned && !is_grouped && own.is_some_and(|own| at >= own) => {
                self.warn("later-step", format!("step `{name}` has not run yet when this is evaluated"), path, span);
            }
            _ => {}
        }
        let after = reference.path.get(1).map(AsRef::as_ref);
        if let Some(other) = after.filter(|after| *after != "output") {
            let message = format!("`$steps.{name}.{other}` is undefined: a step has only `output`");
            self.warn("step-without-output", message, path, span);
            self.help(Some(format!("did you mean `$steps.{name}.output.{other}`?")));
        } else if after.is_some()
            && let Some(key) = reference.path.get(2)
            && let Some(target) = self.order.get(name).and_then(|at| self.definition.steps.get(*at))
            && target.each.is_none()
            && target.outputs.iter().any(|output| output.value.is_some())
            && target.outputs.iter().all(|output| output.name.text != *key)
        {
            let help = did_you_mean(key, target.outputs.iter().map(|output| output.name.text.as_ref()));
            let help = help.map(|meant| format!("did you mean `$steps.{name}.output.{meant}`?"));
            self.warn("undeclared-output", format!("step `{name}` has no output `{key}`"), path, span);
            self.help(help);
        }
    }

    /// Checks that an input or output is connected to a value of its declared type; nothing converts it.
    fn types(&mut self, field: &Field, expression: &Expression, path: &str, step: Option<&StepDefinition>, site: Site) {
        if site == Site::Output
            || step.is_some_and(|step| step.each.is_some() && expression.text().starts_with("$item"))
        {
            return;
        }
        let Some(given) = types::of_expression(self.definition, &self.inputs, &self.order, expression) else { return };
        let wanted = field.kind.text.as_ref();
        if given != wanted && !(given == "int" && wanted == "float") {
            let message =
                format!("`{}` is declared `{wanted}`, but `{}` is `{given}`", field.name.text, expression.text());
            self.warn("type-conflict", message, path, field.value_span);
        }
    }

    /// `each` goes over arrays only.
    fn each_type(&mut self, each: &Text, path: &str) {
        let given =
            types::of_expression(self.definition, &self.inputs, &self.order, &Expression::new(each.text.clone()));
        if let Some(given) = given.filter(|given| *given != "array") {
            let message = format!("`each` expects an array, but `{}` is `{given}`", each.text);
            self.warn("type-conflict", message, path, each.span);
        }
    }

    /// A literal value of another type than its declaration says.
    fn literal(&mut self, field: &Field, path: &str) {
        let Some(value) = &field.value else { return };
        if !types::fits(&field.kind.text, value) {
            let message = format!("`{}` is declared `{}`, but its value is not one", field.name.text, field.kind.text);
            self.warn("type-conflict", message, path, field.value_span);
        }
    }

    fn durations(&mut self, step: &StepDefinition, path: &str) {
        let retry = step.retry.as_ref().map(|retry| ("retry.delay", &retry.delay));
        for (key, text) in step.delay.as_ref().map(|delay| ("delay", delay)).into_iter().chain(retry) {
            if duration_ms(&text.text).is_none() {
                let message = format!("`{}` is not a duration, and counts as no delay at all", text.text);
                self.warn("bad-duration", message, &format!("{path}.{key}"), text.span);
                self.help(Some("write whole milliseconds or seconds, such as \"500ms\" or \"2s\"".to_owned()));
            }
        }
    }

    /// Fields that have no effect where they stand.
    fn modifiers(&mut self, step: &StepDefinition, path: &str) {
        let is_tool = matches!(step.body, Body::Tool { .. });
        if let Some(retry) = &step.retry
            && !is_tool
        {
            self.warn(
                "inert-retry",
                "`retry` has no effect here: only tools are retried",
                &format!("{path}.retry"),
                retry.delay.span,
            );
        }
        if let Some(each) = &step.each
            && is_tool
            && step.delay.is_none()
            && step.extension.concurrency.is_none()
        {
            self.warn(
                "each-without-delay",
                "consecutive elements call the tool without a pause",
                &format!("{path}.each"),
                each.span,
            );
            self.help(Some("if the tool has a rate limit, add `delay: \"500ms\"`; if it has none, `x-opcell: {concurrency: 4}` is faster".to_owned()));
        }
        if step.extension.concurrency.is_some() && step.each.is_none() {
            self.warn(
                "inert-concurrency",
                "`concurrency` has no effect without `each`",
                &format!("{path}.x-opcell"),
                step.id.span,
            );
        }
        if matches!(step.body, Body::Conditional { .. } | Body::Exit { .. })
            && let Some(output) = step.outputs.first()
        {
            let message = format!("outputs of a {} step are ignored", step.kind());
            self.warn("inert-outputs", message, &format!("{path}.outputs"), output.name.span);
        }
    }

    /// Returns `true` if a place may be searched: a text with many expressions is searched for each of them.
    fn may_search(&self, span: Span) -> bool {
        let left = self.searchable.get().checked_sub(span.end.saturating_sub(span.start));
        self.searchable.set(left.unwrap_or(0));
        left.is_some()
    }

    /// Returns the place of a key or a text inside of a place, or else the place.
    fn find_in(&self, span: Span, text: &str) -> Span {
        if !self.may_search(span) {
            return span;
        }
        let inside = self.source.get(span.start..span.end).unwrap_or_default();
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
        let whole = |at: usize| {
            let before = inside.get(..at).and_then(|before| before.chars().next_back());
            let after = inside.get(at + text.len()..).and_then(|after| after.chars().next());
            !before.is_some_and(is_word) && !after.is_some_and(is_word)
        };
        let found = inside.match_indices(text).map(|(at, _)| at).find(|at| whole(*at));
        found.map_or(span, |at| Span::new(span.start + at, span.start + at + text.len()))
    }

    /// Checks the items of a transform: an array, or else one thing as an array of its own.
    fn transformed(&mut self, step: &StepDefinition, path: &str) {
        if !matches!(step.body, Body::Filter { .. } | Body::Map { .. } | Body::Sort { .. }) {
            return;
        }
        let may_be_array = |input: &Field| input.kind.text.as_ref() == "array" || self.kind_of(input) == "array";
        match (step.inputs.first(), step.inputs.iter().any(may_be_array)) {
            (None, _) => {
                let message = "a transform without inputs has nothing to go over, and gives an empty array";
                self.warn("transform-without-array", message, &format!("{path}.inputs"), step.id.span);
                self.help(Some(
                    "give it an array: `inputs: {items: {type: array, value: $steps.NAME.output}}`".to_owned(),
                ));
            }
            (Some(first), false) => {
                let kind = self.kind_of(first);
                let article = if kind.starts_with(['i', 'o']) { "an" } else { "a" };
                let message =
                    format!("`{}` is {article} {kind}, which a transform takes as an array of one", first.name.text);
                self.warn(
                    "transform-without-array",
                    message,
                    &format!("{path}.inputs.{}", first.name.text),
                    first.value_span,
                );
            }
            _ => {}
        }
    }

    /// Returns the type of an input's value where that is known, or else the type that the input is declared to have.
    fn kind_of<'b>(&'b self, input: &'b Field) -> &'b str {
        let declared = input.kind.text.as_ref();
        let of = |expression: &Expression| types::of_expression(self.definition, &self.inputs, &self.order, expression);
        match input.value.as_ref().map(value_spec) {
            Some(ValueSpec::Expression { expression }) => of(&expression).unwrap_or(declared),
            Some(ValueSpec::Interpolation { interpolation }) => match interpolation.single() {
                Some(expression) => of(expression).unwrap_or(declared),
                None => "string",
            },
            _ => input.value.as_ref().and_then(types::of_literal).unwrap_or(declared),
        }
    }

    /// A step that a branch runs is declared after its conditional, as the author's guide says; one before it runs
    /// late.
    fn early_branches(&mut self, step: &'a StepDefinition, path: &str) {
        let Some(own) = self.order.get(step.id.text.as_ref()).copied() else { return };
        for name in step.branch_steps() {
            if self.order.get(name.text.as_ref()).is_some_and(|at| *at < own) {
                let message = format!(
                    "step `{}` is declared before the conditional `{}` that runs it, and runs when the conditional does",
                    name.text, step.id.text
                );
                self.warn("early-branch", message, &format!("{path}.then"), name.span);
                self.help(Some("declare the steps of a branch after their conditional".to_owned()));
            }
        }
    }

    /// Exits whose outputs and the workflow's do not meet.
    fn exits(&mut self) {
        let declared = &self.definition.outputs;
        if declared.is_empty() {
            return;
        }
        let names: HashSet<&str> = declared.iter().map(|output| output.name.text.as_ref()).collect();
        for (index, step) in self.definition.steps.iter().enumerate() {
            let Body::Exit { output: Some(Value::Object(entries)), output_span, .. } = &step.body else { continue };
            if self.found.len() > MANY {
                return;
            }
            for key in entries.keys().filter(|key| !names.contains(key.as_str())) {
                let help = did_you_mean(key, declared.iter().map(|output| output.name.text.as_ref()));
                let help = help.map(|meant| format!("did you mean `{meant}`?"));
                let message = format!("`{key}` is not an output of the workflow, and is dropped");
                let place = self.find_in(*output_span, key);
                self.warn("exit-output", message, &format!("steps[{index}].output.{key}"), place);
                self.help(help);
            }
            for output in declared.iter().filter(|output| !entries.contains_key(&output.name.text)) {
                let message = format!("the workflow's output `{}` is null when this exit is taken", output.name.text);
                self.warn("exit-output", message, &format!("steps[{index}].output"), *output_span);
            }
        }
    }

    /// Conditionals that choose themselves again, directly or through others, with nothing to count the rounds.
    fn endless_branches(&mut self) {
        let steps = &self.definition.steps;
        let mut chosen: DiGraph<(), ()> = DiGraph::with_capacity(steps.len(), steps.len());
        let nodes: Vec<NodeIndex> = steps.iter().map(|_| chosen.add_node(())).collect();
        for (node, step) in nodes.iter().zip(steps) {
            for name in step.branch_steps() {
                if let Some(target) = self.order.get(name.text.as_ref()).and_then(|at| nodes.get(*at)) {
                    chosen.add_edge(*node, *target, ());
                }
            }
        }
        let contains_itself = |component: &Vec<NodeIndex>| match component.as_slice() {
            [only] => chosen.contains_edge(*only, *only),
            _ => true,
        };
        let mut endless: Vec<usize> =
            kosaraju_scc(&chosen).into_iter().filter(contains_itself).flatten().map(NodeIndex::index).collect();
        endless.sort_unstable();
        for index in endless {
            let Some(step) = steps.get(index) else { continue };
            let message = format!("conditional `{}` contains itself: the run may never end", step.id.text);
            self.warn("endless-branches", message, &format!("steps[{index}]"), step.id.span);
            self.help(Some(
                "a repeated branch needs a step outside its own branches; to iterate over items, use `each`".to_owned(),
            ));
        }
    }
}
