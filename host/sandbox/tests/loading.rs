//! From bytes to a plugin: what is refused on the way, and what the compiler's limits hold.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it looks at")]

mod common;

use common::{Guest, config, limits, load, request, sandbox};
use opcell_sandbox::{
    Access, CellRequest, CompileLimits, CompileMode, CompileProgram, DangerousPreopen, FilesGrant, Grants, LoadError,
    LoadRequest, PluginSource, Sandbox, SandboxConfig, cache::CachePlace,
};
use std::{
    os::unix::fs::PermissionsExt,
    path::Path,
    time::{Duration, Instant},
};

async fn refusal(guest: &Guest) -> LoadError {
    load(guest).await.unwrap_err()
}

fn compiling_with(compile_limits: CompileLimits) -> Sandbox {
    Sandbox::new(SandboxConfig { compile_limits, ..config() }).unwrap()
}

#[tokio::test]
async fn a_description_that_cannot_be_true_or_used_is_refused() {
    let entry = "(call $entry (i32.const 2048) (i32.const 16) (i32.const 8) (i32.const 4096) (i32.const LENGTH))";
    let list = |count: i32| {
        format!(
            "(i32.store (i32.const 2040) (i32.const 2048)) (i32.store (i32.const 2044) (i32.const {count})) (i32.const 2040)"
        )
    };
    let twice = "(memory.copy (i32.const 2084) (i32.const 2048) (i32.const 36))";
    for (describe, schema, expected) in [
        (list(0), "true", "it describes nothing"),
        (format!("{entry} {twice} {}", list(2)), "true", "`test/run` is listed twice"),
        (
            format!("{entry} (i32.store (i32.const 2052) (i32.const 5)) {}", list(1)),
            "true",
            "`test/` is not an operation id",
        ),
        (format!("{entry} {}", list(1_000)), "true", "abi"),
        (format!("{entry} {}", list(1)), "{\"a\"", "the schema is not JSON"),
        (format!("{entry} {}", list(1)), "\"text\"", "not a JSON Schema"),
        ("(unreachable)".to_owned(), "true", "unreachable"),
    ] {
        let describe = describe.replace("LENGTH", &schema.len().to_string());
        let guest = Guest { describe: Some(describe), schema: schema.to_owned(), ..Guest::default() };
        let error = refusal(&guest).await;
        assert_eq!(error.kind(), "describe-failed", "{expected}: {error}");
        assert!(expected == "abi" || error.to_string().contains(expected), "{expected}: {error}");
    }
}

#[tokio::test]
async fn a_file_that_is_missing_a_directory_or_no_component_is_refused() {
    let sandbox = sandbox();
    let directory = tempfile::tempdir().unwrap();
    let text = directory.path().join("plugin.wasm");
    std::fs::write(&text, "#!/bin/sh\nrm -rf /\n").unwrap();
    for (path, kind) in [
        (Path::new("/does/not/exist.wasm"), "plugin-not-found"),
        (directory.path(), "unreadable"),
        (&*text, "not-a-component"),
    ] {
        let error = sandbox.load(LoadRequest::new("x", PluginSource::from(path))).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
}

#[tokio::test]
async fn a_grant_to_a_directory_that_does_not_exist_is_refused() {
    let grants =
        Grants { files: [("repo".to_owned(), FilesGrant::read("/does/not/exist"))].into(), ..Grants::default() };
    let error = sandbox().load(LoadRequest { grants, ..request(&Guest::default()) }).await.unwrap_err();
    assert_eq!(error.kind(), "invalid-grant");
    assert!(error.to_string().contains("`repo`") && error.to_string().contains("/does/not/exist"), "{error}");
}

#[tokio::test]
async fn a_component_above_the_size_cap_is_refused_before_it_is_looked_at() {
    let sandbox = compiling_with(CompileLimits { component_bytes: 1_000, ..CompileLimits::default() });
    let error = sandbox.load(LoadRequest::new("x", PluginSource::Bytes(vec![0; 2_000].into()))).await.unwrap_err();
    assert_eq!(error.to_string(), "the component has 2000 bytes; at most 1000 are compiled");
}

/// One function of many nested blocks with many live values: slow to compile out of proportion to its size.
fn bomb() -> Guest {
    let locals = 2_000;
    let mut body = String::new();
    for local in 0..locals {
        body.push_str(&format!(
            "(local.set {local} (i32.add (local.get {local}) (local.get {})))",
            (local * 7 + 1) % locals
        ));
        if local % 2 == 0 {
            body.push_str("(block (br_if 0 (local.get 0))");
        }
    }
    body.push_str(&")".repeat(locals / 2));
    // Every local is used behind every block, so that each block needs a value for each of them.
    for local in 0..locals {
        body.push_str(&format!("(global.set $sink (i32.xor (global.get $sink) (local.get {local})))"));
    }
    let function =
        |name: usize| format!("(func $b{name} (export \"b{name}\") (local {}) {body})", "i32 ".repeat(locals));
    Guest::default().with("(global $sink (mut i32) (i32.const 0))").with(&(0..8).map(function).collect::<String>())
}

#[tokio::test]
async fn a_compile_bomb_ends_at_its_limits_and_the_host_does_not_notice() {
    for (limits, expected) in [
        (CompileLimits { deadline: Duration::from_millis(150), ..CompileLimits::default() }, "of wall time"),
        (CompileLimits { address_space: 120 << 20, ..CompileLimits::default() }, "120 MiB of address space"),
    ] {
        let sandbox = compiling_with(limits);
        let started = Instant::now();
        let error = sandbox.load(request(&bomb())).await.unwrap_err();
        assert_eq!(error.kind(), "compile-limit", "{error}");
        assert!(error.to_string().contains(expected), "{error}");
        assert!(started.elapsed() < Duration::from_secs(30));
    }
}

#[tokio::test]
async fn what_exceeded_the_limits_of_compilation_is_not_compiled_again_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let compile_limits = CompileLimits { deadline: Duration::from_millis(150), ..CompileLimits::default() };
    let with = |config: SandboxConfig| SandboxConfig { cache: Some(place(directory.path())), ..config };
    let first = Sandbox::new(with(SandboxConfig { compile_limits: compile_limits.clone(), ..config() })).unwrap();
    let guest = bomb();
    assert_eq!(first.load(request(&guest)).await.unwrap_err().kind(), "compile-limit");
    // Whoever compiles now would fail otherwise.
    let missing = || CompileMode::Child(CompileProgram { path: "/does/not/exist".into(), args: Vec::new() });
    let again = Sandbox::new(with(SandboxConfig { compile_limits, ..SandboxConfig::new(missing()) })).unwrap();
    let error = again.load(request(&guest)).await.unwrap_err().to_string();
    assert!(error.contains("0.15 s of wall time, found within the last hour"), "{error}");
    let patient = Sandbox::new(with(SandboxConfig::new(missing()))).unwrap();
    assert_eq!(patient.load(request(&guest)).await.unwrap_err().kind(), "compile-process");
}

#[tokio::test]
async fn a_compiler_that_is_missing_dies_or_lies_is_an_error() {
    for (path, args, expected) in [
        ("/does/not/exist", vec![], "cannot start"),
        ("/bin/sh", vec!["-c", "exit 3"], "gave no answer"),
        ("/bin/sh", vec!["-c", "echo nonsense"], "not a compile response"),
        ("/bin/sh", vec!["-c", r#"echo '{"ready":{"version":"0.0.0"}}'; exec sleep 600"#], "is version 0.0.0"),
        (
            "/bin/sh",
            vec!["-c", r#"echo '{"compiled":{"engine":"other","bytes":1,"digest":"00"}}'; exec sleep 600"#],
            "did not say that it is one",
        ),
        (
            "/bin/sh",
            vec![
                "-c",
                concat!(
                    r#"echo '{"ready":{"version":""#,
                    env!("CARGO_PKG_VERSION"),
                    r#""}}'; echo '{"compiled":{"engine":"other","bytes":1,"digest":"00"}}'; echo x"#
                ),
            ],
            "a different engine",
        ),
        // What it was started for is in its environment, and nothing else does.
        (
            "/bin/sh",
            vec!["-c", "test \"$OPCELL_COMPILE_CHILD\" = 1 && test -z \"$HOME\" && echo marked"],
            "not a compile response",
        ),
        ("/bin/sh", vec!["-c", "kill -XCPU $$"], "CPU time"),
    ] {
        let program = CompileProgram { path: path.into(), args: args.into_iter().map(Into::into).collect() };
        let sandbox = Sandbox::new(SandboxConfig { compile: CompileMode::Child(program), ..config() }).unwrap();
        let error = sandbox.load(request(&Guest::default())).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{expected}: {error}");
    }
}

#[tokio::test]
async fn a_proposal_that_is_switched_off_is_refused_by_the_compiler() {
    for (module, expected) in [
        // Several memories are on, for guests of script languages: as with a plain function, only the exports are
        // missing.
        ("(func)", "link-error"),
        ("(memory 1) (memory 1)", "link-error"),
        ("(memory i64 1)", "compile-rejected"),
        ("(memory 1 1 shared)", "compile-rejected"),
        ("(type $t (func)) (tag (type $t))", "compile-rejected"),
        ("(type (struct))", "compile-rejected"),
        ("(func (param externref))", "compile-rejected"),
    ] {
        let wat = format!(
            r#"(component (core module {module}) (instance $i) (export "opcell:plugin/operations@0.1.0" (instance $i)))"#
        );
        let source = PluginSource::Bytes(wat::parse_str(wat).unwrap().into());
        let error = sandbox().load(LoadRequest::new("x", source)).await.unwrap_err();
        assert_eq!(error.kind(), expected, "{module}: {error}");
    }
}

#[tokio::test]
async fn a_component_too_large_for_the_small_pool_runs_in_the_script_pool() {
    let tables = (0..10).map(|number| format!("(table $t{number} 10 funcref)")).collect::<String>();
    let plugin = load(&Guest::default().with(&tables)).await.unwrap();
    assert_eq!(plugin.pool(), "script");
    assert!(plugin.invoke(CellRequest::new("test/run", "1")).await.result.is_ok());
    let tables = (0..100).map(|number| format!("(table $t{number} 10 funcref)")).collect::<String>();
    let error = refusal(&Guest::default().with(&tables)).await;
    assert_eq!(error.kind(), "too-large-for-pool", "{error}");
}

fn place(directory: &Path) -> CachePlace {
    CachePlace { directory: directory.join("cache"), keys: directory.join("keys") }
}

#[tokio::test]
async fn a_grant_that_would_reach_the_cache_or_its_key_is_refused_before_anything_is_compiled() {
    let directory = tempfile::tempdir().unwrap();
    let cache = place(directory.path());
    let compile = CompileMode::Child(CompileProgram { path: "/does/not/exist".into(), args: Vec::new() });
    let sandbox = Sandbox::new(SandboxConfig { cache: Some(cache.clone()), ..SandboxConfig::new(compile) }).unwrap();
    std::fs::create_dir(cache.directory.join("sub")).unwrap();
    for reach in [directory.path(), &cache.directory, &cache.directory.join("sub"), &cache.keys] {
        let files = [("work".to_owned(), FilesGrant::read(reach))].into();
        let preopen = DangerousPreopen {
            host: reach.into(),
            guest: "/work".to_owned(),
            access: Access::Read,
            control_files: true,
        };
        for grants in
            [Grants { files, ..Grants::default() }, Grants { dangerous_preopens: vec![preopen], ..Grants::default() }]
        {
            let error = sandbox.load(LoadRequest { grants, ..request(&Guest::default()) }).await.unwrap_err();
            assert_eq!(error.kind(), "control-files", "{}: {error}", reach.display());
        }
    }
}

#[tokio::test]
async fn a_writable_preopen_over_what_decides_is_refused_unless_it_says_so() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("opcell.toml"), "").unwrap();
    let preopen = |access, control_files| {
        let preopen =
            DangerousPreopen { host: directory.path().into(), guest: "/work".to_owned(), access, control_files };
        let grants = Grants { dangerous_preopens: vec![preopen], ..Grants::default() };
        LoadRequest { grants, ..request(&Guest::default()) }
    };
    let error = sandbox().load(preopen(Access::ReadWrite, false)).await.unwrap_err();
    assert!(error.to_string().contains("`control-files = true`"), "{error}");
    assert!(sandbox().load(preopen(Access::Read, false)).await.is_ok());
    assert!(sandbox().load(preopen(Access::ReadWrite, true)).await.is_ok());
}

#[tokio::test]
async fn a_cached_plugin_is_loaded_without_the_compiler() {
    let directory = tempfile::tempdir().unwrap();
    let cache = Some(place(directory.path()));
    let guest = Guest::default();
    Sandbox::new(SandboxConfig { cache: cache.clone(), ..config() }).unwrap().load(request(&guest)).await.unwrap();
    let broken = CompileMode::Child(CompileProgram { path: "/does/not/exist".into(), args: Vec::new() });
    let warm = Sandbox::new(SandboxConfig { cache: cache.clone(), ..SandboxConfig::new(broken) }).unwrap();
    let plugin = warm.load(request(&guest)).await.unwrap();
    assert!(plugin.invoke(CellRequest::new("test/run", "1")).await.result.is_ok());
    // Its code is in memory for as long as a plugin uses it.
    drop(plugin);
    // One byte changed, and the compiler is needed again: its absence shows that nothing else was used.
    let entry = std::fs::read_dir(directory.path().join("cache"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|extension| extension == "native"))
        .unwrap();
    let mut bytes = std::fs::read(&entry).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&entry, bytes).unwrap();
    assert_eq!(warm.load(request(&guest)).await.unwrap_err().kind(), "compile-process");
    let whole = Sandbox::new(SandboxConfig { cache, ..config() }).unwrap();
    assert!(whole.load(request(&guest)).await.is_ok());
    assert!(entry.exists() && entry.with_extension("native.quarantined").exists());
}

#[tokio::test]
async fn a_cache_that_cannot_be_written_is_only_a_warning() {
    let directory = tempfile::tempdir().unwrap();
    let cache = place(directory.path());
    let sandbox = Sandbox::new(SandboxConfig { cache: Some(cache.clone()), ..config() }).unwrap();
    std::fs::remove_dir(&cache.directory).unwrap();
    assert!(sandbox.load(request(&Guest::default())).await.is_ok());
}

#[test]
fn a_cache_that_others_may_write_stops_the_sandbox() {
    let directory = tempfile::tempdir().unwrap();
    let cache = place(directory.path());
    std::fs::create_dir(&cache.directory).unwrap();
    std::fs::set_permissions(&cache.directory, std::fs::Permissions::from_mode(0o777)).unwrap();
    let error = Sandbox::new(SandboxConfig { cache: Some(cache), ..config() }).unwrap_err();
    assert!(error.to_string().contains("is not safe: its mode is 777"), "{error}");
}

#[tokio::test]
async fn a_manifest_asks_for_less_than_the_operator_allows_and_never_for_more() {
    let manifest = r#"{"schema":1,"name":"modest","version":"2.1.0","limits":{"wall-time":"1 s","memory":"1 GiB"}}"#;
    let guest = Guest { manifest: Some(manifest.to_owned()), ..Guest::default() };
    let request = LoadRequest { limits: limits(r#"{"memory":"32 MiB"}"#), ..request(&guest) };
    let plugin = sandbox().load(request).await.unwrap();
    assert_eq!(
        (plugin.name(), plugin.manifest().name.as_deref(), plugin.version()),
        ("guest", Some("modest"), Some("2.1.0"))
    );
    assert_eq!((plugin.limits().wall_time, plugin.limits().memory), (1_000, 32 << 20));
}
