use super::{Library, folders_of_project, folders_of_user};
use crate::{Config, Host, Value};
use opcell_engine::ports::Workflows as _;
use std::{fs, path::Path};

fn says(folder: &Path, file: &str, what: &str) {
    fs::create_dir_all(folder).unwrap();
    let name = file.split('.').next().unwrap();
    let text = format!(
        "{{:name {name:?} :description \"d\" :steps [{{:name \"say\" :type :exit :status :success :output {{:value {what:?}}}}}]}}"
    );
    fs::write(folder.join(file), text).unwrap();
}

async fn result(host: &Host, workflow: &crate::Workflow) -> Value {
    host.start(workflow, Value::Null).await.unwrap().finished().await.unwrap().result
}

#[tokio::test]
async fn a_workflow_of_the_project_takes_the_place_of_one_of_the_user() {
    let home = tempfile::tempdir().unwrap();
    let project = tempfile::tempdir().unwrap();
    for (folder, what) in [
        (home.path().join(".psi/workflows"), "old user"),
        (home.path().join(".psi/agent/workflows"), "user"),
        (project.path().join(".opcell/workflows"), "project"),
    ] {
        says(&folder, "all.edn", what);
        let mut config = Config::empty(project.path());
        config.default_workflows = folders_of_user(home.path());
        config.workflows = folders_of_project(project.path());
        let host = Host::builder().config(config).build().await.unwrap();
        assert_eq!(result(&host, &host.open("all").unwrap()).await, Value::from(what));
    }
}

#[test]
fn a_name_that_two_documents_of_a_project_have_is_that_of_neither() {
    let project = tempfile::tempdir().unwrap();
    let folders = folders_of_project(project.path());
    says(&folders[0], "all.edn", "psi");
    says(&folders[1], "all.edn", "own");
    let refused = |library: &Library, name: &str| {
        let rejected = library.open(name).unwrap_err();
        assert!(library.find(name).is_none() && !library.names().contains(&name.to_owned()));
        (rejected.diagnostics[0].code, rejected.diagnostics[0].help.clone().unwrap())
    };
    let library = Library::read(&folders);
    let (code, help) = refused(&library, "all");
    assert!(code == "duplicate-workflow" && help.contains(".psi") && help.contains(".opcell"), "{help}");
    // In one folder, whatever the files are called, and also where the second does not compile.
    says(&folders[0], "report.edn", "report");
    let report = fs::read_to_string(folders[0].join("report.edn")).unwrap();
    fs::write(folders[0].join("zz.edn"), &report).unwrap();
    library.refresh();
    assert_eq!(refused(&library, "report").0, "duplicate-workflow");
    fs::write(folders[0].join("zz.edn"), "{:name").unwrap();
    fs::write(folders[0].join("report.json"), "{}").unwrap();
    library.refresh();
    assert_eq!(refused(&library, "report").0, "duplicate-workflow");
    fs::remove_file(folders[0].join("report.json")).unwrap();
    library.refresh();
    assert!(library.open("report").is_ok());
}

#[tokio::test]
async fn a_changed_document_is_seen_by_the_next_run_and_not_by_one_under_way() {
    let folder = tempfile::tempdir().unwrap();
    says(folder.path(), "callee.edn", "before");
    let waits = r#"{:name "waits" :description "d"
        :steps [{:name "wait" :type :wait :signal "go"} {:name "call" :type :delegate :target "callee" :prompt-string "x"}]}"#;
    fs::write(folder.path().join("waits.edn"), waits).unwrap();
    let host = Host::builder().workflows(folder.path()).build().await.unwrap();
    let under_way = host.start(&host.open("waits").unwrap(), Value::Null).await.unwrap();

    says(folder.path(), "callee.edn", "after, and longer");
    fs::write(folder.path().join("waits.edn"), "{:name").unwrap();

    assert_eq!(result(&host, &host.open("callee").unwrap()).await, Value::from("after, and longer"));
    assert!(host.open("waits").is_err());
    under_way.signal("go", Value::Null, None).await.unwrap();
    let outcome = under_way.finished().await.unwrap();
    assert_eq!(outcome.result, Value::from("before"), "{outcome:?}");
}

#[test]
fn a_broken_document_does_not_bring_back_the_one_it_replaces_and_comes_back_when_it_is_mended() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    says(first.path(), "a.edn", "first");
    fs::write(second.path().join("a.edn"), "{:name \"a\" :steps").unwrap();
    let library = Library::read_with_defaults(&[first.path().into()], &[second.path().into()]);
    assert!(library.open("a").is_err() && library.find("a").is_none());

    says(second.path(), "a.edn", "second");
    assert!(library.open("a").is_ok());
    fs::remove_file(second.path().join("a.edn")).unwrap();
    library.refresh();
    assert!(format!("{:?}", library.find("a").unwrap()).contains("first"));
}

#[test]
fn a_pack_is_read_again_when_only_a_schema_beside_it_has_changed() {
    let folder = tempfile::tempdir().unwrap();
    let pack = r#"{"id":"p","name":"P","version":"1.0.0","template_engine":{"version":"v1","syntax":"{{variable}}"},
        "prompts":{"q":{"id":"q","name":"Q","version":"1.0.0","system_template":"Ask."}},
        "compositions":{"c":{"version":1,"input_schema":"s.schema","steps":[{"id":"ask","kind":"prompt","prompt_task":"q"}]}},
        "workflow":{"version":1,"entry":"a","states":{"a":{"orchestration":"composition","composition":"c","terminal":true}}}}"#;
    fs::write(folder.path().join("p.json"), pack).unwrap();
    let library = Library::read(&[folder.path().into()]);
    assert!(library.find("p").is_none(), "the schema is not there");
    for kind in ["object", "string"] {
        fs::write(folder.path().join("s.schema"), format!(r#"{{"type":"{kind}"}}"#)).unwrap();
        library.refresh();
        let schema = library.find("p").unwrap().workflows[0].input_schema.clone().unwrap();
        assert_eq!(schema.get("type"), Some(&Value::from(kind)));
    }
}

#[test]
fn one_name_in_a_markdown_and_an_edn_file_of_a_folder_counts_for_neither() {
    let folder = tempfile::tempdir().unwrap();
    says(folder.path(), "a.edn", "edn");
    fs::write(folder.path().join("a.md"), "---\nname: a\ndescription: d\n---\nText.\n").unwrap();
    let error = Library::read(&[folder.path().into()]).open("a").unwrap_err();
    assert!(error.to_string().contains("Workflow name `a` is defined by both `.md` and `.edn` files"), "{error}");
}

#[test]
fn a_missing_folder_has_no_workflows_and_a_broken_document_keeps_no_other_from_being_read() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    assert!(Library::read(std::slice::from_ref(&missing)).names().is_empty());

    says(folder.path(), "good.edn", "good");
    fs::write(folder.path().join("bad.edn"), "{:name \"bad\"").unwrap();
    let calls =
        r#"{:name "calls" :description "d" :steps [{:name "s" :type :delegate :target "nobody" :prompt-string "x"}]}"#;
    fs::write(folder.path().join("calls.edn"), calls).unwrap();
    let library = Library::read(&[missing, folder.path().into()]);
    assert_eq!(library.names(), ["calls", "good"], "who is called is looked for when the step is reached");
    assert!(library.open("bad").is_err());
}

#[test]
fn a_link_that_leads_out_of_a_workflow_folder_is_not_read() {
    let base = tempfile::tempdir().unwrap();
    let folder = base.path().join("workflows");
    says(&folder, "own.edn", "own");
    fs::write(base.path().join("netrc"), "machine example.org password hunter2").unwrap();
    std::os::unix::fs::symlink("../netrc", folder.join("stolen.edn")).unwrap();
    std::os::unix::fs::symlink("own.edn", folder.join("alias.edn")).unwrap();
    let library = Library::read(&[folder]);
    let refused = library.named("stolen").unwrap().unwrap_err();
    assert_eq!(refused.diagnostics[0].code, "link-leads-out");
    assert!(!refused.to_string().contains("hunter2"), "{refused}");
    assert!(library.named("own").unwrap().is_ok());
}

#[test]
fn a_document_is_compiled_again_only_when_it_or_a_file_it_was_compiled_from_has_changed() {
    let project = tempfile::tempdir().unwrap();
    let folder = project.path();
    // Words that name companions elsewhere are only texts here.
    says(folder, "plain.edn", "\"skills\" _schema :prompt-workflow");
    let session =
        "{:name \"asks\" :description \"d\" :steps [{:name \"ask\" :type :session :prompt-workflow \"prompt.md\"}]}";
    fs::write(folder.join("asks.edn"), session).unwrap();
    let prompt = |text: &str| {
        let text = format!("---\nname: prompt\ndescription: d\n---\n{text}\n");
        fs::write(folder.join("prompt.md"), text).unwrap();
    };
    prompt("First.");
    let library = Library::read(&[folder.to_path_buf()]);
    let of = |name: &str| library.find(name).unwrap();
    let (plain, asks) = (of("plain"), of("asks"));
    library.refresh();
    assert!(std::sync::Arc::ptr_eq(&plain, &of("plain")) && std::sync::Arc::ptr_eq(&asks, &of("asks")));
    prompt("Second, and longer.");
    library.refresh();
    assert!(std::sync::Arc::ptr_eq(&plain, &of("plain")));
    assert!(format!("{:?}", of("asks")).contains("Second, and longer."), "{:?}", of("asks"));
}

/// A pack with one prompt and this governance.
fn governed(folder: &Path, governance: &str) {
    let pack = format!(
        r#"{{"id": "desk", "name": "Desk", "version": "1.0.0", "template_engine": {{"version": "v1", "syntax": "{{{{variable}}}}"}},
            "metadata": {{"governance": {governance}}},
            "prompts": {{"talk": {{"id": "talk", "name": "Talk", "version": "1.0.0", "system_template": "Be brief."}}}}}}"#
    );
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("desk.pack.json"), pack).unwrap();
}

#[tokio::test]
async fn a_pack_whose_governance_the_project_does_not_accept_neither_starts_nor_is_called() {
    let project = tempfile::tempdir().unwrap();
    let folder = project.path().join("workflows");
    for (governance, code, accepting) in [
        (
            r#"{"requires_ai_disclosure": true}"#,
            "unenforced-governance",
            "accept-governance = [\"requires_ai_disclosure\"]",
        ),
        (r#"{"approved_environments": ["uk"]}"#, "environment-not-approved", "environment = \"uk\""),
    ] {
        governed(&folder, governance);
        for (packs, is_accepted) in [("", false), (accepting, true)] {
            let text = format!("workflows = [\"workflows\"]\n[packs]\n{packs}\n");
            fs::write(project.path().join("opcell.toml"), text).unwrap();
            let config = Config::load(project.path().join("opcell.toml")).unwrap();
            let host = Host::builder().config(config).build().await.unwrap();
            let library = host.library();
            assert_eq!(library.find("desk").is_some(), is_accepted, "{governance} {packs}");
            assert_eq!(library.names().contains(&"desk".to_owned()), is_accepted, "{governance} {packs}");
            let desk = host.open("desk").unwrap();
            match host.start(&desk, Value::object::<&str>([])).await {
                Ok(run) => {
                    assert!(is_accepted, "{governance} {packs}");
                    run.cancel("the test has seen it start");
                }
                Err(crate::host::StartError::Rejected(rejected)) => {
                    let found: Vec<_> =
                        rejected.diagnostics.iter().map(|found| (found.code, found.span.is_some())).collect();
                    assert!(!is_accepted && found == [(code, true)], "{governance} {packs}: {found:?}");
                }
                Err(other) => panic!("{governance} {packs}: {other}"),
            }
        }
    }
}
