//! A workflow as a picture: Mermaid text, which code hosts and editors draw.

use opcell_workflow::{
    WorkflowIr,
    ir::{Form, Goto, Step},
};
use std::fmt::Write as _;

/// A Mermaid flowchart: a node per step, an edge per way that control can take.
#[must_use]
pub fn mermaid(workflow: &WorkflowIr) -> String {
    let mut text = "flowchart TD\n".to_owned();
    for (index, step) in workflow.steps.iter().enumerate() {
        let _ = writeln!(text, "  s{index}{}", node(step));
    }
    text.push_str("  done([done])\n");
    for (index, step) in workflow.steps.iter().enumerate() {
        edges(&mut text, workflow, index, step);
    }
    text
}

/// Shape and label: what a step executes shows in its shape.
fn node(step: &Step) -> String {
    let (open, close, what) = match &step.form {
        Form::Invoke { invoke } => ("[\"", "\"]", invoke.operation.as_ref()),
        Form::Session { .. } => ("(\"", "\")", "session"),
        Form::Delegate { .. } => ("[[\"", "\"]]", "delegate"),
        Form::Transform { .. } => ("[/\"", "\"/]", "transform"),
        Form::Branch { .. } => ("{\"", "\"}", "branch"),
        Form::Parallel { .. } => ("{{\"", "\"}}", "parallel"),
        Form::Exit { .. } => ("([\"", "\"])", "exit"),
        Form::Wait { .. } => ("[\\\"", "\"\\]", "wait"),
    };
    format!("{open}{}<br/>{}{close}", label(&step.name), label(what))
}

fn edges(text: &mut String, workflow: &WorkflowIr, index: usize, step: &Step) {
    let mut edge = |to: String, name: &str| {
        let _ = if name.is_empty() {
            writeln!(text, "  s{index} --> {to}")
        } else {
            writeln!(text, "  s{index} -->|\"{}\"| {to}", label(name))
        };
    };
    let by_name = |name: &str| workflow.step_index(name).map_or_else(|| "unknown".to_owned(), |at| format!("s{at}"));
    let after = || following(workflow, index);
    let target = |goto: &Goto| match goto {
        Goto::Next => after(),
        Goto::Previous => index.checked_sub(1).map_or_else(|| "unknown".to_owned(), |at| format!("s{at}")),
        Goto::Done => "done".to_owned(),
        Goto::Step(name) => by_name(name),
    };
    for route in &step.on {
        let bound = route.max_iterations.map(|max| format!(", at most {max} times")).unwrap_or_default();
        edge(target(&route.goto), &format!("{}{bound}", route.outcome));
        if let Some(exhausted) = &route.on_max_iterations {
            edge(target(exhausted), &format!("{} exhausted", route.outcome));
        }
    }
    if let Some(instead) = &step.on_max_visits {
        edge(by_name(instead), "too many visits");
    }
    match &step.form {
        Form::Branch { branch } => {
            branch.then.first().into_iter().for_each(|first| edge(by_name(first), "then"));
            branch.otherwise.first().into_iter().for_each(|first| edge(by_name(first), "else"));
        }
        Form::Parallel { parallel } => {
            for group in &parallel.branches {
                group.first().into_iter().for_each(|first| edge(by_name(first), "at once"));
            }
        }
        _ => {}
    }
    let ends = step.terminal || matches!(step.form, Form::Exit { .. });
    if ends {
        edge("done".to_owned(), "");
    } else if step.on.is_empty() && !step.grouped {
        edge(after(), "");
    }
}

/// The next step of the main line, or the end.
fn following(workflow: &WorkflowIr, index: usize) -> String {
    let rest = workflow.steps.iter().enumerate().skip(index + 1);
    rest.filter(|(_, step)| !step.grouped).map(|(at, _)| format!("s{at}")).next().unwrap_or_else(|| "done".to_owned())
}

/// Text that ends no label, in Mermaid's own entities.
fn label(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in crate::report::printable(text).chars() {
        match c {
            '#' => escaped.push_str("#35;"),
            '"' => escaped.push_str("#quot;"),
            '&' => escaped.push_str("#amp;"),
            '<' => escaped.push_str("#lt;"),
            '>' => escaped.push_str("#gt;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::mermaid;
    use crate::Workflow;

    #[test]
    fn routes_bounds_and_ends_are_drawn() {
        let text = r#"
            {:name "w" :description "d"
             :steps [{:name "look" :type :invoke :operation "a/look" :args {}
                      :judge {:type :invoke :operation "a/judge" :args {}}
                      :on {"AGAIN" {:goto "look" :max-iterations 3} :fine {:goto :next} "STOP" {:goto :done}}}
                     {:name "say \"<hi>\"" :type :invoke :operation "a/say" :args {}}]}"#;
        insta::assert_snapshot!(mermaid(Workflow::compile("w.edn", text).unwrap().ir()));
    }
}
