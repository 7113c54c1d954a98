//! Guests written in WebAssembly text, and a sandbox to run them in.

#![allow(dead_code, reason = "every test binary uses its own part")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a guest that cannot be built is a failed test")]

use opcell_sandbox::{
    CellRequest, CellResult, CompileMode, CompileProgram, LimitRequest, LoadError, LoadRequest, OperationSuccess,
    Plugin, PluginSource, Sandbox, SandboxConfig,
};
use std::{path::PathBuf, sync::Arc};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// A guest that offers the operation `test/run`, the judge `test/gate`, or both.
pub struct Guest {
    pub world: &'static str,
    /// Extra imports, functions, globals, data.
    pub extra: String,
    /// The body of `invoke`: has `$args` and `$args_len`, and the run in the globals `$run` and `$run_len`, and leaves
    /// a pointer to its result. The default echoes its arguments.
    pub invoke: String,
    /// The body of `judge`: leaves a pointer to its result. The default is the text `pass`.
    pub judge: String,
    /// The body of `describe` of operations: leaves a pointer to a list.
    pub describe: Option<String>,
    /// Schema of arguments and data.
    pub schema: String,
    /// Pages of memory at the start.
    pub pages: u32,
    pub manifest: Option<String>,
    /// A package with a world `with-wasi` that includes the plugin's world.
    pub wasi: Option<&'static str>,
}

impl Default for Guest {
    fn default() -> Self {
        Self {
            world: "operation-plugin",
            extra: String::new(),
            invoke: "(call $ok (local.get $args) (local.get $args_len))".to_owned(),
            judge: "(call $text (i32.const 24) (i32.const 4))".to_owned(),
            describe: None,
            schema: "true".to_owned(),
            pages: 2,
            manifest: None,
            wasi: None,
        }
    }
}

/// Imports of the log interface, for guests that use it.
pub const LOG: &str = r#"
    (import "opcell:plugin/log@0.1.0" "log" (func $log (param i32 i32 i32)))
    (import "opcell:plugin/log@0.1.0" "panicked" (func $panicked (param i32 i32)))"#;

/// Import of `tools.call`: name, arguments, result pointer.
pub const TOOLS: &str = r#"(import "opcell:plugin/tools@0.1.0" "call" (func $tool (param i32 i32 i32 i32 i32)))"#;

impl Guest {
    pub fn invoke(body: &str) -> Self {
        Self { invoke: body.to_owned(), ..Self::default() }
    }

    pub fn with(mut self, extra: &str) -> Self {
        self.extra.push_str(extra);
        self
    }

    pub fn judge(body: &str) -> Self {
        Self { world: "judge-plugin", judge: body.to_owned(), ..Self::default() }
    }

    /// The manifest asks for these tools and file roots.
    pub fn asking(mut self, tools: &[&str], files: &[(&str, &str)]) -> Self {
        let tools: Vec<String> = tools.iter().map(|name| format!(r#"{{"name":"{name}","reason":"a test"}}"#)).collect();
        let files: Vec<String> = files
            .iter()
            .map(|(name, access)| format!(r#"{{"name":"{name}","access":"{access}","reason":"a test"}}"#))
            .collect();
        self.manifest = Some(format!(
            r#"{{"schema":1,"name":"guest","version":"1.0.0","capabilities":{{"tools":[{}],"files":[{}]}}}}"#,
            tools.join(","),
            files.join(",")
        ));
        self
    }

    /// The core module. Strings stand from 16 on, the heap from 64 KiB on.
    pub fn wat(&self) -> String {
        let Self { extra, invoke, judge, pages, .. } = self;
        let schema = &self.schema;
        let schema_len = schema.len();
        let schema = schema.replace('\\', "\\\\").replace('"', "\\\"");
        let describe = self.describe.clone().unwrap_or_else(|| {
            format!(
                "(call $entry (i32.const 2048) (i32.const 16) (i32.const 8) (i32.const 4096) (i32.const {schema_len}))
                 (i32.store (i32.const 2040) (i32.const 2048)) (i32.store (i32.const 2044) (i32.const 1)) (i32.const 2040)"
            )
        });
        let manifest = self.manifest.as_ref().map_or(String::new(), |manifest| {
            format!("(@custom \"opcell:manifest\" \"{}\")", manifest.replace('"', "\\\""))
        });
        let operations = r#"
    (func (export "opcell:plugin/operations@0.1.0#describe") (result i32) (call $describe))
    (func (export "opcell:plugin/operations@0.1.0#invoke")
      (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
      (global.set $run (local.get 4)) (global.set $run_len (local.get 5))
      (call $invoke (local.get 2) (local.get 3)))"#;
        let judges = format!(
            r#"
    (func (export "opcell:plugin/judges@0.1.0#describe") (result i32)
      (i32.store (i32.const 2048) (i32.const 36)) (i32.store (i32.const 2052) (i32.const 9))
      (i32.store (i32.const 2056) (i32.const 16)) (i32.store (i32.const 2060) (i32.const 0))
      (i32.store (i32.const 2064) (i32.const 4096)) (i32.store (i32.const 2068) (i32.const {schema_len}))
      (i32.store (i32.const 2072) (i32.const 2200)) (i32.store (i32.const 2076) (i32.const 2))
      ;; outcomes: text "pass", keyword "fail"
      (i32.store (i32.const 2204) (i32.const 24)) (i32.store (i32.const 2208) (i32.const 4))
      (i32.store (i32.const 2212) (i32.const 1)) (i32.store (i32.const 2216) (i32.const 28)) (i32.store (i32.const 2220) (i32.const 4))
      (i32.store (i32.const 2040) (i32.const 2048)) (i32.store (i32.const 2044) (i32.const 1)) (i32.const 2040))
    (func (export "opcell:plugin/judges@0.1.0#judge")
      (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
      {judge})"#
        );
        let exports = match self.world {
            "operation-plugin" => operations.to_owned(),
            "judge-plugin" => judges,
            _ => format!("{operations}{judges}"),
        };
        format!(
            r#"(module
    {extra}
    {manifest}
    (memory (export "memory") {pages})
    (global $heap (mut i32) (i32.const 65536))
    (global $run (mut i32) (i32.const 0)) (global $run_len (mut i32) (i32.const 0))
    (data (i32.const 16) "test/runpassfail")
    (data (i32.const 36) "test/gate")
    (data (i32.const 1024) "{{}}")
    (data (i32.const 4096) "{schema}")
    (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (local $at i32)
      (local.set $at (global.get $heap))
      (global.set $heap (i32.and (i32.add (i32.add (local.get $at) (local.get 3)) (i32.const 7)) (i32.const -8)))
      (local.get $at))
    ;; A successful result with this data.
    (func $ok (param $ptr i32) (param $len i32) (result i32)
      (memory.fill (i32.const 3000) (i32.const 0) (i32.const 40))
      (i32.store (i32.const 3004) (local.get $ptr)) (i32.store (i32.const 3008) (local.get $len)) (i32.const 3000))
    ;; A failed result with this text as reason and message.
    (func $fail (param $ptr i32) (param $len i32) (result i32)
      (memory.fill (i32.const 3000) (i32.const 0) (i32.const 40)) (i32.store (i32.const 3000) (i32.const 1))
      (i32.store (i32.const 3004) (local.get $ptr)) (i32.store (i32.const 3008) (local.get $len))
      (i32.store (i32.const 3012) (local.get $ptr)) (i32.store (i32.const 3016) (local.get $len)) (i32.const 3000))
    ;; A verdict with a text outcome.
    (func $text (param $ptr i32) (param $len i32) (result i32)
      (memory.fill (i32.const 3000) (i32.const 0) (i32.const 40))
      (i32.store (i32.const 3008) (local.get $ptr)) (i32.store (i32.const 3012) (local.get $len)) (i32.const 3000))
    ;; Describes one pure operation.
    (func $entry (param $at i32) (param $id i32) (param $id_len i32) (param $schema i32) (param $schema_len i32)
      (i32.store (local.get $at) (local.get $id)) (i32.store offset=4 (local.get $at) (local.get $id_len))
      (i32.store offset=16 (local.get $at) (local.get $schema)) (i32.store offset=20 (local.get $at) (local.get $schema_len))
      (i32.store offset=24 (local.get $at) (local.get $schema)) (i32.store offset=28 (local.get $at) (local.get $schema_len)))
    (func $describe (result i32) {describe})
    (func $invoke (param $args i32) (param $args_len i32) (result i32) (local $i i32) (local $j i32) {invoke})
    {exports})"#
        )
    }

    pub fn component(&self) -> Vec<u8> {
        let wat = self.wat();
        let mut module = wat::parse_str(&wat).unwrap_or_else(|error| panic!("{error}\n{wat}"));
        let mut resolve = Resolve::default();
        let wit = concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit");
        let (mut package, _) = resolve.push_dir(wit).unwrap();
        let mut world = self.world;
        if let Some(wasi) = self.wasi {
            package = resolve.push_str("wasi.wit", wasi).unwrap();
            world = "with-wasi";
        }
        let world = resolve.select_world(&[package], Some(world)).unwrap();
        embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8, false).unwrap();
        ComponentEncoder::default().module(&module).unwrap().validate(true).encode().unwrap()
    }
}

/// Compiles in a child process, as in production.
pub fn config() -> SandboxConfig {
    let program = CompileProgram { path: PathBuf::from(env!("CARGO_BIN_EXE_opcell-compile")), args: Vec::new() };
    SandboxConfig { cells: 8, ..SandboxConfig::new(CompileMode::Child(program)) }
}

pub fn sandbox() -> Sandbox {
    Sandbox::new(config()).unwrap()
}

pub fn request(guest: &Guest) -> LoadRequest {
    LoadRequest::new("guest", PluginSource::Bytes(guest.component().into()))
}

pub async fn load(guest: &Guest) -> Result<Arc<Plugin>, LoadError> {
    sandbox().load(request(guest)).await
}

pub fn limits(json: &str) -> LimitRequest {
    serde_json::from_str(json).unwrap()
}

/// Loads a guest with limits and calls `test/run` with `{}`.
pub async fn run(guest: &Guest, limit: &str) -> CellResult<OperationSuccess> {
    let request = LoadRequest { limits: limits(limit), ..request(guest) };
    let plugin = sandbox().load(request).await.unwrap();
    plugin.invoke(CellRequest::new("test/run", "{}")).await
}

/// Calls the tool `test/run` with its own arguments. A denial becomes the failure `denied`, anything else the tool's
/// answer.
pub fn tool_caller() -> Guest {
    let body = "(call $tool (i32.const 16) (i32.const 8) (local.get $args) (local.get $args_len) (i32.const 512))
        (if (result i32) (i32.eqz (i32.load8_u (i32.const 512)))
          (then (call $ok (i32.load (i32.const 516)) (i32.load (i32.const 520))))
          (else (if (result i32) (i32.eqz (i32.load8_u (i32.const 516)))
            (then (call $fail (i32.const 1100) (i32.const 6)))
            (else (call $fail (i32.load (i32.const 520)) (i32.load (i32.const 524)))))))";
    Guest::invoke(body).with(TOOLS).with(r#"(data (i32.const 1100) "denied")"#)
}
