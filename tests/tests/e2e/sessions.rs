//! The requests and files that a project lets its models reach, seen from the project: requests, and the files that
//! every prompt shows.

use crate::{forge::Forge, host_in, provider::Provider};
use opcell::{RunOutcome, Status, Value};
use std::{fs, path::Path};

/// Runs the one-step workflow `ask`, whose model has these tools and says what `script` says, in a project of its own.
async fn asked(folder: &Path, project: &str, tools: &str, script: &str) -> RunOutcome {
    fs::create_dir_all(folder.join("workflows")).unwrap();
    let workflow = format!(
        "{{:name \"ask\" :description \"Asks\" :steps [{{:name \"ask\" :type :session :tools [{tools}] :skills []\n\
         :contributions [{{:type :template :text \"Go.\" :vars {{}}}}]}}]}}"
    );
    fs::write(folder.join("workflows/ask.edn"), workflow).unwrap();
    fs::write(folder.join("script.yaml"), script).unwrap();
    let host = host_in(folder, format!("workflows = [\"workflows\"]\n{project}")).await;
    let run = host.start(&host.open("ask").unwrap(), Value::Null).await.unwrap();
    run.finished().await.unwrap()
}

fn requests(forge: &Forge, elsewhere: &str) -> String {
    let url = forge.url();
    format!(
        "version: 1\nturns:\n  - tool-calls:\n      - {{id: a, name: http.fetch, arguments: {{method: GET, url: \"{url}/repos/acme/rocket/issues?page=1\"}}}}\n  \
         - when: {{contains: Leaks fuel}}\n    tool-calls:\n      - {{id: b, name: http.fetch, arguments: {{method: GET, url: \"{elsewhere}/\"}}}}\n  \
         - {{when: {{contains: denied}}, text: \"It leaks.\"}}\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_fetches_what_the_project_allows_and_never_sees_the_credential() {
    let forge = Forge::start(&[(7, "Leaks fuel", &["bug"])]).await;
    let other = Forge::start(&[]).await;
    let folder = tempfile::tempdir().unwrap();
    let project = format!(
        "[sessions]\nscript = \"script.yaml\"\ncontext-files = \"none\"\n[[sessions.http]]\nhosts = [{:?}]\nprivate = true\n\
         credential = {{ file = {:?} }}\n",
        forge.url(),
        forge.token_file()
    );

    let outcome = asked(folder.path(), &project, "\"http.fetch\"", &requests(&forge, &other.url())).await;

    assert_eq!(outcome.status, Status::Completed, "{outcome:?}");
    assert_eq!(outcome.result, Value::from("It leaks."));
    assert!(forge.every_request_was_authorised() && other.was_not_asked());
    assert!(!format!("{outcome:?}").contains(Forge::TOKEN));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_rule_for_requests_models_have_no_tool_for_them() {
    let forge = Forge::start(&[(7, "Leaks fuel", &["bug"])]).await;
    let folder = tempfile::tempdir().unwrap();
    let project = "[sessions]\nscript = \"script.yaml\"\ncontext-files = \"none\"\n";
    let script = format!(
        "version: 1\nturns:\n  - when: {{system-contains: \"¬available: http.fetch\"}}\n    tool-calls:\n      \
         - {{id: a, name: http.fetch, arguments: {{method: GET, url: \"{}/\"}}}}\n  \
         - {{when: {{contains: \"this session has no tool `http.fetch`\"}}, text: \"I cannot.\"}}\n",
        forge.url()
    );

    let outcome = asked(folder.path(), project, "\"http.fetch\"", &script).await;

    assert_eq!((outcome.status, &outcome.result), (Status::Completed, &Value::from("I cannot.")), "{outcome:?}");
    assert!(forge.was_not_asked());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_projects_own_instructions_are_shown_to_every_model_unless_it_says_none() {
    for (setting, shown) in [("", true), ("context-files = \"project\"\n", true), ("context-files = \"none\"\n", false)]
    {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("AGENTS.md"), "Measure twice.\n").unwrap();
        let project = format!("[sessions]\nscript = \"script.yaml\"\n{setting}");
        let script = "version: 1\nturns:\n  - {when: {system-contains: \"Measure twice.\"}, text: \"Yes.\"}\n";

        let outcome = asked(folder.path(), &project, "", script).await;

        assert_eq!(outcome.status == Status::Completed, shown, "{setting}: {outcome:?}");
        assert!(shown || outcome.message.unwrap().contains("Measure twice."), "the script says what it expected");
    }
}

/// A provider of three models, beside one whose only model, the cheapest, cannot be reached.
fn models(provider: &Provider) -> String {
    let model = |owner: &str, id: &str, cost: f64, locality: &str| {
        format!("[[models.providers.{owner}.models]]\nid = {id:?}\ninput-cost = {cost:?}\nlocality = {locality:?}\n")
    };
    format!(
        "[models.providers.house]\napi = \"openai-completions\"\nbase-url = {:?}\n{}{}{}\
         [models.providers.gone]\napi = \"openai-completions\"\nbase-url = \"http://127.0.0.1:1/v1/\"\n\
         retry = {{ max-attempts = 1, first-wait-ms = 1, max-wait-ms = 1 }}\n{}\
         [sessions]\ncontext-files = \"none\"\n[sessions.defaults]\nresponse-mode = \"non-streaming\"\n\
         [sessions.profiles.careful]\nmodel = \"house/large\"\nthinking-level = \"high\"\ntemperature = 0.5\n",
        provider.url(),
        model("house", "large", 9.0, "cloud"),
        model("house", "middle", 3.0, "local"),
        model("house", "small", 1.0, "local"),
        model("gone", "free", 0.0, "local"),
    )
}

/// Runs one session step with these settings and outputs over the wire.
async fn over_the_wire(provider: &Provider, settings: &str) -> RunOutcome {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("workflows")).unwrap();
    let workflow = format!(
        "{{:name \"ask\" :description \"Asks\" :steps [{{:name \"ask\" :type :session :tools [] :skills [] {settings}\n\
         :contributions [{{:type :template :text \"Go.\" :vars {{}}}}]}}]}}"
    );
    fs::write(folder.path().join("workflows/ask.edn"), workflow).unwrap();
    let host = host_in(folder.path(), format!("workflows = [\"workflows\"]\n{}", models(provider))).await;
    let run = host.start(&host.open("ask").unwrap(), Value::Null).await.unwrap();
    run.finished().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_best_ranked_model_that_can_be_reached_is_the_one_that_is_asked() {
    for (settings, model) in [
        // The cheapest one cannot be reached, and the next one is asked instead.
        (
            ":model {:type :model-query :require [{:criterion :locality :equals :local}] :prefer [{:criterion :input-cost :prefer :lower}]}",
            "small",
        ),
        (":model {:type :model-query :prefer [{:criterion :input-cost :prefer :higher}]}", "large"),
        (":model {:type :model-query :require [{:criterion :locality :equals :mars}] :fallback \"middle\"}", "middle"),
        (":model \"house/unlisted\"", "unlisted"),
    ] {
        let provider = Provider::start(&["Hello."]).await;

        let outcome = over_the_wire(&provider, settings).await;

        assert_eq!((outcome.status, &outcome.result), (Status::Completed, &Value::from("Hello.")), "{outcome:?}");
        let asked: Vec<_> = provider.asked().iter().map(|body| body["model"].clone()).collect();
        assert_eq!(asked, [model], "{settings}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_gives_what_the_step_does_not_set() {
    for (settings, model, effort, temperature) in [
        (":session-profile :careful", "large", "high", 0.5),
        (":session-profile :careful :model \"small\" :thinking-level :low :temperature 0.25", "small", "low", 0.25),
    ] {
        let provider = Provider::start(&["Hello."]).await;

        let outcome = over_the_wire(&provider, settings).await;

        assert_eq!(outcome.status, Status::Completed, "{outcome:?}");
        let body = &provider.asked()[0];
        assert_eq!((&body["model"], &body["reasoning_effort"]), (&model.into(), &effort.into()), "{body}");
        assert_eq!(body["temperature"], temperature);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_structured_answer_is_asked_for_by_schema_and_again_only_where_the_step_says_so() {
    let outputs = |on_invalid: &str| {
        format!(
            ":model \"small\" :outputs {{:verdict {{:source :session/structured-output :mode :structured :schema-id :v :schema-version 1\n\
             :schema [:map [:n :int]] :json-schema {{:type \"object\" :properties {{:n {{:type \"integer\"}}}} :required [\"n\"]}}\n\
             :on-invalid {on_invalid}}}}} :yields {{:type :data :data :verdict}}"
        )
    };
    let provider = Provider::start(&["{\"n\": \"seven\"}", "{\"n\": 7}"]).await;

    let outcome = over_the_wire(&provider, &outputs("{:action :retry :max-attempts 2}")).await;

    assert_eq!(outcome.result.get("n"), Some(&Value::from(7)), "{outcome:?}");
    let asked = provider.asked();
    assert_eq!(asked.len(), 2);
    assert!(asked[0].to_string().contains("\"required\":[\"n\"]"), "{}", asked[0]);
    assert!(asked[1]["messages"].to_string().contains("is not of type"), "{}", asked[1]);

    let provider = Provider::start(&["{\"n\": \"seven\"}", "{\"n\": 7}"]).await;

    let outcome = over_the_wire(&provider, &outputs("{:action :fail-fast}")).await;

    assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Blocked, Some("invalid-structured-output")));
    assert_eq!(provider.asked().len(), 1);
}
