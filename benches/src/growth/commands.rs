//! Whole commands in projects of more and more plugins, over longer and longer documents, with more and more tools.

use super::{Curve, Setting};
use crate::data;
use anyhow::{Context as _, Result, ensure};
use opcell_bench::Guest;
use opcell_selftest::component_from_wat;
use std::{fmt::Write as _, fs, path::Path, process::Command};

/// Runs of each command, of which the least counts.
const TIMES: usize = 5;

/// Operations of one plugin: tools come from as many plugins as are needed.
const OPERATIONS: u64 = 1_000;

/// The command in a folder, with nothing of the user's.
pub(super) fn opcell(setting: &Setting, folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(&setting.opcell);
    command.args(["--quiet"]).args(words).current_dir(folder).env("HOME", folder).env_remove("XDG_STATE_HOME");
    command.env_remove("XDG_CACHE_HOME");
    command
}

/// Runs a command that must succeed, and returns milliseconds and megabytes: the least of several.
pub(super) fn least(command: &mut Command) -> Result<(f64, f64)> {
    // The first one may compile.
    let first = command.output().with_context(|| format!("{command:?} does not start"))?;
    ensure!(first.status.success(), "{command:?} failed: {}", String::from_utf8_lossy(&first.stderr));
    let took = data::least(TIMES, command, || Ok(()))?;
    Ok((took.time.as_secs_f64() * 1e3, took.peak_kib as f64 * 1024.0 / 1e6))
}

/// The built-in echo under a namespace of four letters: components that differ, as plugins do.
fn echo(namespace: &str) -> Result<Vec<u8>> {
    ensure!(namespace.len() == 4, "`{namespace}` is not as long as `echo`");
    let mut component = Guest::built_in()?.component.to_vec();
    for operation in ["echo/echo", "echo/log"] {
        let at = component.windows(operation.len()).position(|bytes| bytes == operation.as_bytes());
        let at = at.with_context(|| format!("the built-in guest has no `{operation}`"))?;
        component.get_mut(at..at + 4).context("inside")?.copy_from_slice(namespace.as_bytes());
    }
    Ok(component)
}

/// A project of more and more plugins: the start of a command that calls one of them.
///
/// # Errors
/// When a command fails.
pub fn plugins(setting: &Setting) -> Result<Vec<Curve>> {
    const WORK: &str = "plugins in a project";
    let mut run = Curve::new(WORK, "`opcell run` of one cell", "ms");
    let mut memory = Curve::new(WORK, "the same, at the peak", "MB");
    let mut check = Curve::new(WORK, "`opcell check` of that workflow", "ms");
    let folder = setting.folder()?;
    let text = r#"{:name "hello" :description "Says hello" :steps [{:name "hello" :type :invoke :operation "p000/echo" :args {:text "hello"}}]}"#;
    fs::write(folder.path().join("hello.edn"), text)?;
    let mut project = "workflows = [\".\"]\n".to_owned();
    let mut there = 0;
    for size in setting.sizes(1, 1_000) {
        for number in there..size {
            let name = format!("p{number:03}");
            fs::write(folder.path().join(format!("{name}.wasm")), echo(&name)?)?;
            let _ = write!(project, "\n[plugins.{name}]\npath = \"{name}.wasm\"\n");
        }
        there = size;
        fs::write(folder.path().join("opcell.toml"), &project)?;
        let (ms, mb) = least(&mut opcell(setting, folder.path(), &["run", "hello", "--no-journal"]))?;
        run.add(size, ms);
        memory.add(size, mb);
        check.add(size, least(&mut opcell(setting, folder.path(), &["check", "hello.edn"]))?.0);
    }
    Ok(vec![run, memory, check])
}

/// The steps of the longest document: one of psi has at most 4 MiB.
const LONGEST: u64 = 30_000;

/// A document of more and more steps.
///
/// # Errors
/// When a command fails.
pub fn steps(setting: &Setting) -> Result<Vec<Curve>> {
    const WORK: &str = "steps in a document";
    let mut check = Curve::new(WORK, "`opcell check`", "ms");
    let mut run = Curve::new(WORK, "`opcell run`", "ms");
    let mut memory = Curve::new(WORK, "the same, at the peak", "MB");
    let folder = setting.folder()?;
    for size in setting.sizes(10, 10_000).chain((setting.most >= LONGEST).then_some(LONGEST)) {
        let mut text = r#"{:name "steps" :description "Measured" :steps ["#.to_owned();
        for step in 0..size {
            let _ = write!(
                text,
                "\n {{:name \"s{step}\" :type :transform :operation :filter :where \"$item > 1\" :inputs {{:items {{:from :workflow-input}}}}}}"
            );
        }
        text.push_str("]}\n");
        fs::write(folder.path().join("steps.edn"), text)?;
        check.add(size, least(&mut opcell(setting, folder.path(), &["check", "steps.edn"]))?.0);
        let words = ["run", "steps.edn", "--input", "[1,2]", "--no-journal"];
        let (ms, mb) = least(&mut opcell(setting, folder.path(), &words))?;
        run.add(size, ms);
        memory.add(size, mb);
    }
    Ok(vec![check, run, memory])
}

/// A plugin with many operations, each of which returns its arguments.
fn operations(plugin: u64, count: u64) -> Result<Vec<u8>> {
    // Descriptions begin at 4096: 36 bytes each, with the place and the length of four texts, and the effects.
    let name = |number: u64| format!("t{plugin:03}/o{number:03}");
    let names = 4_096 + count * 36;
    let texts = names + count * 9;
    let pages = (texts + 64) / 65_536 + 2;
    let little = |number: u64| {
        let bytes = u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes();
        bytes.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "\\{byte:02x}");
            text
        })
    };
    let (mut table, mut ids) = (String::new(), String::new());
    for number in 0..count {
        let fields = [names + number * 9, 9, texts, 22, texts + 24, 17, texts + 24, 17, 0];
        table.extend(fields.map(little));
        ids.push_str(&name(number));
    }
    let list = [4_096, count].map(little).concat();
    let heap = pages * 65_536 - 65_536;
    let text = format!(
        r#"(module
  (memory (export "memory") {pages})
  (global $heap (mut i32) (i32.const {heap}))
  (func (export "cabi_realloc") (param $old i32) (param $old-size i32) (param $align i32) (param $size i32) (result i32)
    (local $at i32)
    (local.set $at (i32.and (i32.add (global.get $heap) (i32.sub (local.get $align) (i32.const 1)))
      (i32.xor (i32.sub (local.get $align) (i32.const 1)) (i32.const -1))))
    (global.set $heap (i32.add (local.get $at) (local.get $size)))
    (local.get $at))
  (data (i32.const 1024) "{list}")
  (data (i32.const 4096) "{table}")
  (data (i32.const {names}) "{ids}")
  (data (i32.const {texts}) "Returns its arguments.  {{\"type\":\"object\"}}")
  (func (export "opcell:plugin/operations@0.1.0#describe") (result i32) (i32.const 1024))
  (func (export "opcell:plugin/operations@0.1.0#invoke")
      (param $id i32) (param $id-length i32) (param $arguments i32) (param $arguments-length i32)
      (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (i32.store (i32.const 2052) (local.get $arguments))
    (i32.store (i32.const 2056) (local.get $arguments-length))
    (i32.const 2048)))"#
    );
    component_from_wat(&text, None, "operation-plugin", None)
}

/// A session with more and more tools, whose scripted model calls one of them.
///
/// # Errors
/// When a command fails.
pub fn tools(setting: &Setting) -> Result<Vec<Curve>> {
    const WORK: &str = "tools of a session";
    let mut run = Curve::new(WORK, "`opcell run` of two rounds and one call", "ms");
    let mut memory = Curve::new(WORK, "the same, at the peak", "MB");
    for size in setting.sizes(10, 10_000) {
        let folder = setting.folder()?;
        let mut project =
            "workflows = [\".\"]\n\n[sessions]\nscript = \"script.yaml\"\ncontext-files = \"none\"\n".to_owned();
        let mut names = String::new();
        for plugin in 0..size.div_ceil(OPERATIONS) {
            let count = (size - plugin * OPERATIONS).min(OPERATIONS);
            fs::write(folder.path().join(format!("t{plugin}.wasm")), operations(plugin, count)?)?;
            let _ = write!(project, "\n[plugins.t{plugin}]\npath = \"t{plugin}.wasm\"\n");
            for number in 0..count {
                let _ = write!(names, " \"t{plugin:03}/o{number:03}\"");
            }
        }
        fs::write(folder.path().join("opcell.toml"), project)?;
        fs::write(
            folder.path().join("script.yaml"),
            "version: 1\nturns:\n  - text: I call it.\n    tool-calls:\n      - { name: t000/o000, arguments: { n: 1 } }\n  - text: Done.\n",
        )?;
        let text = format!(
            r#"{{:name "talk" :description "Measured" :steps [{{:name "talk" :type :session :tools [{names}]
 :contributions [{{:type :template :text "Go." :vars {{}}}}]}}]}}"#
        );
        fs::write(folder.path().join("talk.edn"), text)?;
        let (ms, mb) = least(&mut opcell(setting, folder.path(), &["run", "talk", "--no-journal"]))?;
        run.add(size, ms);
        memory.add(size, mb);
    }
    Ok(vec![run, memory])
}
