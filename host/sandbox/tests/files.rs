//! Files through a guest's eyes: what a grant gives, and what it does not.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it looks at")]

mod common;

use common::{Guest, limits, request, sandbox};
use opcell_sandbox::{
    Access, CellRequest, CellResult, FilesGrant, Grants, LimitRequest, LoadRequest, Narrowing, OperationSuccess,
    Plugin, Recording, Remedy, Tape,
};
use opcell_types::Capability;
use serde_json::{Value, json};
use std::sync::Arc;

/// Its argument is a JSON string such as `"r sub/a.txt"`: `r` opens and reads, `w` creates and writes the path itself,
/// `d` removes, `m` makes a directory, `l` counts the root's entries, `o` opens the root over and over. Data is what
/// was read, or the number of the case of `file-error`.
fn guest(access: &str) -> Guest {
    let imports = r#"
    (import "opcell:plugin/files@0.1.0" "open-root" (func $open_root (param i32 i32 i32)))
    (import "opcell:plugin/files@0.1.0" "[method]directory.open" (func $open (param i32 i32 i32 i32)))
    (import "opcell:plugin/files@0.1.0" "[method]directory.create" (func $create (param i32 i32 i32 i32)))
    (import "opcell:plugin/files@0.1.0" "[method]directory.remove" (func $remove (param i32 i32 i32 i32)))
    (import "opcell:plugin/files@0.1.0" "[method]directory.create-directory" (func $mkdir (param i32 i32 i32 i32)))
    (import "opcell:plugin/files@0.1.0" "[method]directory.entries" (func $entries (param i32 i32)))
    (import "opcell:plugin/files@0.1.0" "[method]file.read" (func $read (param i32 i64 i32 i32)))
    (import "opcell:plugin/files@0.1.0" "[method]file.write" (func $write (param i32 i32 i32 i32)))
    (data (i32.const 1100) "repo")
    (func $digit (param i32) (result i32)
      (i32.store8 (i32.const 8) (i32.add (local.get 0) (i32.const 48))) (call $ok (i32.const 8) (i32.const 1)))
    ;; Of the result at 512: the case of its error, or -1.
    (func $error (result i32)
      (if (result i32) (i32.load8_u (i32.const 512)) (then (i32.load8_u (i32.const 516))) (else (i32.const -1))))
    (func $is (param $args i32) (param $letter i32) (result i32)
      (i32.eq (i32.load8_u offset=1 (local.get $args)) (local.get $letter)))"#;
    let answer = "(if (i32.ge_s (call $error) (i32.const 0)) (then (return (call $digit (call $error)))))";
    let body = format!(
        r#"(call $open_root (i32.const 1100) (i32.const 4) (i32.const 512)) {answer}
        (local.set $i (i32.load (i32.const 516)))
        (local.set $args_len (i32.sub (local.get $args_len) (i32.const 4)))
        (if (call $is (local.get $args) (i32.const 111)) (then (loop
          (call $open_root (i32.const 1100) (i32.const 4) (i32.const 512)) {answer} (br 0))))
        (if (call $is (local.get $args) (i32.const 108)) (then
          (call $entries (local.get $i) (i32.const 512)) {answer} (return (call $digit (i32.load (i32.const 520))))))
        (if (call $is (local.get $args) (i32.const 100)) (then
          (call $remove (local.get $i) (i32.add (local.get $args) (i32.const 3)) (local.get $args_len) (i32.const 512)) {answer}
          (return (call $ok (i32.const 1024) (i32.const 2)))))
        (if (call $is (local.get $args) (i32.const 109)) (then
          (call $mkdir (local.get $i) (i32.add (local.get $args) (i32.const 3)) (local.get $args_len) (i32.const 512)) {answer}
          (return (call $ok (i32.const 1024) (i32.const 2)))))
        (if (call $is (local.get $args) (i32.const 119)) (then
          (call $create (local.get $i) (i32.add (local.get $args) (i32.const 3)) (local.get $args_len) (i32.const 512)) {answer}
          (call $write (i32.load (i32.const 516)) (i32.add (local.get $args) (i32.const 3)) (local.get $args_len) (i32.const 512)) {answer}
          (return (call $ok (i32.const 1024) (i32.const 2)))))
        (call $open (local.get $i) (i32.add (local.get $args) (i32.const 3)) (local.get $args_len) (i32.const 512)) {answer}
        (call $read (i32.load (i32.const 516)) (i64.const 0) (i32.const 100) (i32.const 512)) {answer}
        (call $ok (i32.load (i32.const 516)) (i32.load (i32.const 520)))"#
    );
    Guest::invoke(&body).with(imports).asking(&[], &[("repo", access)])
}

const DENIED: i32 = 0;
const NOT_FOUND: i32 = 1;
const ALREADY_EXISTS: i32 = 2;
const QUOTA: i32 = 5;
const FAILED: i32 = 6;

/// A root with `a.json`, `sub/b.json` and a link to a secret beside it.
fn ground() -> tempfile::TempDir {
    let ground = tempfile::tempdir().unwrap();
    let root = ground.path().join("root");
    std::fs::create_dir_all(root.join("sub")).unwrap();
    std::fs::write(root.join("a.json"), "[1]").unwrap();
    std::fs::write(root.join("sub/b.json"), "[2]").unwrap();
    std::fs::write(ground.path().join("secret"), "[3]").unwrap();
    std::os::unix::fs::symlink(ground.path().join("secret"), root.join("link")).unwrap();
    ground
}

async fn plugin(requested: &str, grant: FilesGrant, limit: LimitRequest) -> Arc<Plugin> {
    let grants = Grants { files: [("repo".to_owned(), grant)].into(), ..Grants::default() };
    sandbox().load(LoadRequest { grants, limits: limit, ..request(&guest(requested)) }).await.unwrap()
}

async fn call(plugin: &Plugin, text: &str) -> CellResult<OperationSuccess> {
    plugin.invoke(CellRequest::new("test/run", &json!(text).to_string())).await
}

async fn data(plugin: &Plugin, text: &str) -> Value {
    (&call(plugin, text).await.result.unwrap().data).into()
}

#[tokio::test]
async fn a_read_grant_reads_below_its_root_and_nothing_else() {
    let ground = ground();
    let plugin = plugin("read", FilesGrant::read(ground.path().join("root")), LimitRequest::default()).await;
    assert_eq!(data(&plugin, "r a.json").await, json!([1]));
    assert_eq!(data(&plugin, "r sub/b.json").await, json!([2]));
    assert_eq!(data(&plugin, "l ").await, json!(3));
    assert_eq!(data(&plugin, "r nothing").await, json!(NOT_FOUND));
    for path in ["a.json/", "sub//b.json", "./a.json", ""] {
        assert_eq!(data(&plugin, &format!("r {path}")).await, json!(FAILED), "{path}");
    }
    for (path, rule) in [
        ("link", "symbolic links are not followed"),
        ("../secret", "the path has a segment `..`"),
        ("sub/../../secret", "the path has a segment `..`"),
        ("/etc/passwd", "the path is absolute"),
    ] {
        let done = call(&plugin, &format!("r {path}")).await;
        assert_eq!(done.result.unwrap().data, json!(DENIED), "{path}");
        let denial = &done.receipt.denials[0];
        assert_eq!((denial.rule.as_str(), &denial.remedy), (rule, &Remedy::Nothing), "{path}");
    }
    for write in ["w new", "d a.json", "m made"] {
        let done = call(&plugin, write).await;
        assert_eq!(done.result.unwrap().data, json!(DENIED), "{write}");
        assert!(done.receipt.denials[0].rule.contains("for reading"), "{:?}", done.receipt.denials);
    }
    assert_eq!(std::fs::read_dir(ground.path().join("root")).unwrap().count(), 3);
}

#[tokio::test]
async fn a_replay_reads_what_was_read_and_writes_nothing() {
    let ground = ground();
    let live = plugin("read-write", FilesGrant::read_write(ground.path().join("root")), LimitRequest::default()).await;
    let call = async |plugin: &Plugin, text: &str, tape: Tape| {
        plugin.invoke(CellRequest { tape, ..CellRequest::new("test/run", &json!(text).to_string()) }).await
    };
    let mut recorded = Vec::new();
    for text in ["r a.json", "l ", "r nothing", "r link", "r ../secret", "w sub/new", "m made", "d sub/new", "d made"] {
        let done = call(&live, text, Tape::Record).await;
        let kept = serde_json::to_string(done.receipt.recording.as_ref().unwrap()).unwrap();
        recorded.push((text, serde_json::from_str::<Recording>(&kept).unwrap(), done));
    }
    std::fs::remove_dir_all(ground.path().join("root")).unwrap();
    let ungranted = sandbox().load(request(&guest("read-write"))).await.unwrap();
    for (text, recording, done) in recorded {
        let replayed = call(&ungranted, text, Tape::Replay(Arc::new(recording))).await;
        assert_eq!(replayed.result, done.result, "{text}");
        let used = |done: &CellResult<OperationSuccess>| {
            let receipt = &done.receipt;
            (receipt.host_calls, receipt.bytes_in, receipt.bytes_out, receipt.file_bytes, receipt.denials.clone())
        };
        assert_eq!(used(&replayed), used(&done), "{text}");
        assert!(replayed.receipt.touched.is_empty() && replayed.receipt.recording.unwrap().calls.is_empty(), "{text}");
    }
    assert!(!ground.path().join("root").exists());
}

#[tokio::test]
async fn a_read_write_grant_writes_below_its_root_and_counts_the_bytes() {
    let ground = ground();
    let plugin =
        plugin("read-write", FilesGrant::read_write(ground.path().join("root")), LimitRequest::default()).await;
    let done = call(&plugin, "w sub/new").await;
    assert_eq!(done.result.unwrap().data, json!({}));
    assert_eq!((done.receipt.file_bytes.written, done.receipt.host_calls.files), (7, 3));
    let touched = serde_json::to_value(&done.receipt.touched).unwrap();
    assert_eq!(touched, json!({"files": [{"path": "repo/sub/new", "actions": ["create"], "written": 7}]}));
    assert_eq!(std::fs::read_to_string(ground.path().join("root/sub/new")).unwrap(), "sub/new");
    assert_eq!(data(&plugin, "m made").await, json!({}));
    assert_eq!(data(&plugin, "m made").await, json!(ALREADY_EXISTS));
    assert_eq!(data(&plugin, "d made").await, json!({}));
    assert_eq!(data(&plugin, "d sub").await, json!(ALREADY_EXISTS), "a directory that is not empty stays");
    assert_eq!(data(&plugin, "w link").await, json!(DENIED));
    assert_eq!(data(&plugin, "d link").await, json!(DENIED));
    assert_eq!(std::fs::read_to_string(ground.path().join("secret")).unwrap(), "[3]");
}

#[tokio::test]
async fn the_lesser_of_request_and_grant_counts() {
    let ground = ground();
    let wide = FilesGrant::read_write(ground.path().join("root"));
    let plugin = plugin("read", wide, LimitRequest::default()).await;
    let done = call(&plugin, "w new").await;
    assert_eq!(done.result.unwrap().data, json!(DENIED));
    assert!(done.receipt.denials[0].rule.contains("manifest"), "{:?}", done.receipt.denials);
    assert_eq!(plugin.policy().file_access("repo", None), Ok(Access::Read));
}

#[tokio::test]
async fn without_the_grant_and_beside_the_step_opening_the_root_is_a_denial() {
    let ground = ground();
    let bare = sandbox().load(request(&guest("read"))).await.unwrap();
    let done = call(&bare, "r a.json").await;
    assert_eq!(done.result.unwrap().data, json!(DENIED));
    let remedy = Remedy::Grant {
        plugin: "guest".into(),
        capability: Capability::Files,
        name: "repo".to_owned(),
        access: Some(Access::Read),
    };
    assert_eq!(done.receipt.denials[0].remedy, remedy);
    let plugin = plugin("read", FilesGrant::read(ground.path().join("root")), LimitRequest::default()).await;
    let narrowing = Some(Narrowing { files: Some([].into()), ..Narrowing::default() });
    let done = plugin.invoke(CellRequest { narrowing, ..CellRequest::new("test/run", "\"r a.json\"") }).await;
    assert_eq!(done.result.unwrap().data, json!(DENIED));
    assert!(done.receipt.denials[0].rule.contains("step narrows"));
}

#[tokio::test]
async fn patterns_leave_out_what_they_do_not_cover() {
    let ground = ground();
    let grant =
        FilesGrant { patterns: vec!["sub/*.json".to_owned()], ..FilesGrant::read_write(ground.path().join("root")) };
    let plugin = plugin("read-write", grant, LimitRequest::default()).await;
    assert_eq!(data(&plugin, "r sub/b.json").await, json!([2]));
    for outside in ["r a.json", "w sub/b.txt", "d a.json"] {
        let done = call(&plugin, outside).await;
        assert_eq!(done.result.unwrap().data, json!(DENIED), "{outside}");
        assert!(done.receipt.denials[0].rule.contains("`sub/*.json` only"), "{:?}", done.receipt.denials);
    }
    assert_eq!(data(&plugin, "l ").await, json!(1), "only the directory is listed");
}

#[tokio::test]
async fn quotas_on_open_files_moved_bytes_and_written_bytes_hold() {
    let ground = ground();
    let root = ground.path().join("root");
    let grant = FilesGrant { write_quota: 10, ..FilesGrant::read_write(&root) };
    let plugin = plugin("read-write", grant, limits(r#"{"open-files":5,"file-bytes":150}"#)).await;
    assert_eq!(data(&plugin, "o ").await, json!(QUOTA));
    assert_eq!(data(&plugin, "w 1234567").await, json!({}));
    assert_eq!(data(&plugin, "w 8901234").await, json!(QUOTA), "the grant's quota outlives the cell");
    assert_eq!(data(&plugin, "r a.json").await, json!([1]));
    let tight = self::plugin("read", FilesGrant::read(&root), limits(r#"{"file-bytes":50}"#)).await;
    assert_eq!(data(&tight, "r a.json").await, json!(QUOTA), "a read of 100 bytes asks for more than is left");
}

#[tokio::test]
async fn a_flood_of_handles_ends_at_its_limit() {
    let ground = ground();
    let limits = limits(r#"{"open-files":1000,"handles":20}"#);
    let plugin = plugin("read", FilesGrant::read(ground.path().join("root")), limits).await;
    assert_eq!(call(&plugin, "o ").await.result.unwrap_err().kind(), "handle-limit");
}

#[tokio::test]
async fn the_write_quota_holds_under_parallel_cells() {
    let ground = ground();
    let root = ground.path().join("root");
    let grant = FilesGrant { write_quota: 50, ..FilesGrant::read_write(&root) };
    let plugin = plugin("read-write", grant, LimitRequest::default()).await;
    let cells = (10..40).map(|number| {
        let plugin = Arc::clone(&plugin);
        tokio::spawn(async move { data(&plugin, &format!("w file-{number}.x")).await == json!({}) })
    });
    let mut written = 0;
    for cell in cells.collect::<Vec<_>>() {
        written += u32::from(cell.await.unwrap());
    }
    assert_eq!(written, 5, "of 30 writes of 9 bytes, five fit into 50 bytes");
}
