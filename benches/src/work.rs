//! Documents, workflows and operations to measure with.

use anyhow::Result;
use opcell_engine::{
    Engine, Program, RunOptions, Status,
    ports::{Call, Effects, Operations, Reply, Success},
};
use opcell_types::Value;
use opcell_workflow::workflowskill::parse_workflow_yaml;
use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

/// An operation of the host that gives `null` at once, whatever its name.
#[derive(Debug, Clone, Copy)]
pub struct Nothing;

#[async_trait::async_trait]
impl Operations for Nothing {
    fn effects(&self, _operation: &str) -> Option<Effects> {
        Some(Effects::Pure)
    }

    async fn invoke(&self, _call: Call) -> Reply<Success> {
        Reply { result: Ok(Success { data: Value::Null, summary: None, details: None }), receipt: None }
    }
}

/// An operation of the host whose result is what it was given.
#[derive(Debug, Clone, Copy)]
pub struct Echo;

#[async_trait::async_trait]
impl Operations for Echo {
    fn effects(&self, _operation: &str) -> Option<Effects> {
        Some(Effects::Pure)
    }

    async fn invoke(&self, call: Call) -> Reply<Success> {
        Reply { result: Ok(Success { data: call.of.arguments, summary: None, details: None }), receipt: None }
    }
}

/// A WorkflowSkill step for each of `$inputs.items`: with one input, or with a template as well and two outputs.
///
/// # Errors
/// When the text is not a document.
pub fn skill_each(with_outputs: bool) -> Result<Arc<Program>> {
    let mut text = "inputs:\n  items: { type: array }\nsteps:\n  - id: all\n    type: tool\n    tool: echo\n    each: $inputs.items\n    inputs:\n      value: { type: int, value: $item.id }\n".to_owned();
    if with_outputs {
        text.push_str("      text: { type: string, value: \"row ${item.id}\" }\n    outputs:\n      value: { type: int, value: $result.value }\n      text: { type: string, value: $result.text }\n");
    }
    let skill = parse_workflow_yaml(&text).map_err(|error| anyhow::anyhow!("{error:?}"))?;
    Ok(Program::new(Arc::new(skill.compile("measured")))?)
}

/// As many steps that call `operation` with one number, one after the other.
#[must_use]
pub fn chain(steps: usize, operation: &str) -> String {
    let step = |at| {
        format!(
            r#"{{"name":"s{at}","type":"invoke","invoke":{{"operation":"{operation}","args":{{"n":{{"value":{at}}}}}}}}}"#
        )
    };
    sequential(&(0..steps).map(step).collect::<Vec<_>>().join(","))
}

/// One step that calls `operation` for each of `$inputs.xs`.
#[must_use]
pub fn each(operation: &str) -> String {
    sequential(&format!(
        r#"{{"name":"each","type":"invoke","invoke":{{"operation":"{operation}","args":{{"n":{{"expression":"$item"}}}}}},"each":{{"over":"$inputs.xs","concurrency":16}}}}"#
    ))
}

fn sequential(steps: &str) -> String {
    format!(
        r#"{{"version":"workflow-ir/v1","name":"measured","dialect":{{"printing":"javascript","lifecycle":"sequential"}},"outputs":{{}},"steps":[{steps}]}}"#
    )
}

/// An execution model, ready to run.
///
/// # Errors
/// When the text is none.
pub fn program(ir: &str) -> Result<Arc<Program>> {
    Ok(Program::new(Arc::new(serde_json::from_str(ir)?))?)
}

/// Runs a program to its end in memory.
///
/// # Errors
/// When it does not complete.
pub async fn run(engine: &Engine, program: &Arc<Program>, input: Value) -> Result<()> {
    let outcome = engine.start(Arc::clone(program), input, RunOptions::default()).await?.finished().await?;
    anyhow::ensure!(
        outcome.status == Status::Completed,
        "the run ended as {:?}: {:?}",
        outcome.status,
        outcome.message
    );
    Ok(())
}

/// Makes a project with the plugin `echo` and a workflow `hello` of one cell; its configuration file.
///
/// # Errors
/// The file system's.
pub fn project(folder: &Path, echo: &Path) -> Result<PathBuf> {
    let hello = r#"{:name "hello" :description "Says hello" :steps [{:name "hello" :type :invoke :operation "echo/echo" :args {:text "hello"}}]}"#;
    fs::create_dir_all(folder.join("workflows"))?;
    fs::write(folder.join("workflows/hello.edn"), hello)?;
    let file = folder.join("opcell.toml");
    let echo = echo.canonicalize()?;
    fs::write(&file, format!("workflows = [\"workflows\"]\n\n[plugins.echo]\npath = {echo:?}\n"))?;
    Ok(file)
}

/// A psi workflow of this many steps, each routed to the next by a judge.
#[must_use]
pub fn psi(steps: usize) -> String {
    let mut text = r#"{:name "measured" :description "A chain of routed steps" :steps ["#.to_owned();
    for at in 0..steps {
        let next = if at + 1 == steps { ":done".to_owned() } else { format!("\"step-{}\"", at + 1) };
        let _ = write!(
            text,
            "\n {{:name \"step-{at}\" :type :invoke :operation \"work/do\" :args {{:topic \"bees\" :depth {at} :tags [\"a\" \"b\"]}}\n  :judge {{:type :invoke :operation \"work/judge\" :args {{:limit 3}}}}\n  :on {{\"OK\" {{:goto {next}}} \"AGAIN\" {{:goto \"step-{at}\" :max-iterations 3}}}}}}"
        );
    }
    text.push_str("]}");
    text
}

/// A WorkflowSkill workflow of this many tool steps, each of which reads the one before.
#[must_use]
pub fn skill(steps: usize) -> String {
    let mut text = "inputs:\n  topic:\n    type: string\n    default: bees\nsteps:\n".to_owned();
    for at in 0..steps {
        let source = match at.checked_sub(1) {
            None => "$inputs.topic".to_owned(),
            Some(before) => format!("$steps.step_{before}.output.value"),
        };
        let _ = write!(
            text,
            "  - id: step_{at}\n    type: tool\n    tool: echo\n    description: Passes on what it gets\n    inputs:\n      value:\n        type: string\n        value: {source}\n    outputs:\n      value:\n        type: string\n"
        );
    }
    text
}

/// A PromptPack with this many prompts, and a workflow of as many states.
#[must_use]
pub fn pack(states: usize) -> String {
    let (mut prompts, mut machine) = (serde_json::Map::new(), serde_json::Map::new());
    for at in 0..states {
        let name = format!("p{at}");
        let template = format!("You are step {at}. Speak about {{{{topic}}}} and nothing else.");
        let variables =
            serde_json::json!([{"name": "topic", "type": "string", "required": true, "description": "what about"}]);
        prompts.insert(
            name.clone(),
            serde_json::json!({"id": name, "name": name, "version": "1.0.0", "system_template": template, "variables": variables}),
        );
        let events =
            if at + 1 == states { serde_json::json!({}) } else { serde_json::json!({"Next": format!("s{}", at + 1)}) };
        machine.insert(format!("s{at}"), serde_json::json!({"prompt_task": name, "on_event": events}));
    }
    serde_json::json!({
        "$schema": "https://promptpack.org/schema/latest/promptpack.schema.json",
        "id": "measured", "name": "Measured", "version": "1.0.0", "description": "A chain of states",
        "template_engine": {"version": "v1", "syntax": "{{variable}}"},
        "prompts": prompts,
        "workflow": {"version": 1, "entry": "s0", "states": machine},
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcell_ir::SourceFile;
    use opcell_workflow::{companions::NoCompanions, document};

    #[test]
    fn every_document_compiles() {
        for (name, text) in [("w.edn", psi(5)), ("w.yaml", skill(5)), ("w.json", pack(5))] {
            let compiled = document::compile(&Arc::new(SourceFile::new(name, text)), &NoCompanions);
            assert!(compiled.ir.is_some(), "{name}: {:?}", compiled.diagnostics);
        }
    }

    #[tokio::test]
    async fn every_workflow_completes() {
        let engine = Engine::builder().operations(Arc::new(Nothing)).build();
        run(&engine, &program(&chain(5, "a/b")).unwrap(), Value::object::<&str>([])).await.unwrap();
        let xs = Value::object([("xs", Value::from(serde_json::json!([1, 2])))]);
        run(&engine, &program(&each("a/b")).unwrap(), xs).await.unwrap();
        let engine = Engine::builder().operations(Arc::new(Echo)).build();
        let items = Value::object([("items", Value::array([Value::object([("id", Value::from(7))])]))]);
        for with_outputs in [false, true] {
            run(&engine, &skill_each(with_outputs).unwrap(), items.clone()).await.unwrap();
        }
    }
}
