//! Promises of the seeds that a run could break in silence.

use super::support::*;
use opcell_engine::{Program, RunOptions, Status, conversation::Message};
use opcell_ir::SourceFile;
use opcell_workflow::{companions::NoCompanions, document};
use std::sync::Arc;

/// A document that compiles.
fn compiled(name: &str, text: &str) -> Arc<Program> {
    let compiled = document::compile(&SourceFile::new(name, text), &NoCompanions);
    Program::new(compiled.ir.unwrap_or_else(|| panic!("{:#?}", compiled.diagnostics))).unwrap()
}

fn psi(steps: &str) -> Arc<Program> {
    compiled("w.edn", &format!("{{:name \"w\" :description \"d\" :steps [{steps}]}}"))
}

const DATA: &str = "{:name \"i\" :description \"d\" :steps [{:name \"t\" :type :invoke :operation \"t\"}]}";

fn caller(field: &str) -> Arc<Program> {
    psi(&format!(
        "{{:name \"d\" :type :delegate :target \"i\" :prompt-string \"go\"}}
         {{:name \"r\" :type :invoke :operation \"r\" :args {{:x {{:from {{:step \"d\" :yield :{field}}}}}}}}}"
    ))
}

#[tokio::test]
async fn the_data_that_a_delegate_yields_can_be_read_and_its_text_is_an_error_and_no_null() {
    let script = || {
        Script::new()
            .workflow(&compiled("i.edn", DATA))
            .operation("t", |_| Ok(json(r#"{"n":1}"#)))
            .operation("r", |call| Ok(call.arguments.clone()))
    };
    let outcome = script().run(&caller("data"), "{}").await;
    assert_eq!((outcome.status, outcome.result), (Status::Completed, json(r#"{"x":{"n":1}}"#)));
    let outcome = script().run(&caller("text"), "{}").await;
    assert_eq!(outcome.reason.as_deref(), Some("missing-yield-field"), "{outcome:?}");
    assert!(outcome.message.unwrap().contains("yielded data"));
}

#[tokio::test]
async fn a_variable_whose_path_leads_nowhere_fails_the_step_and_asks_no_model() {
    let program = psi(
        "{:name \"s\" :type :session :contributions [{:type :template :text \"X {{v}} Y\" :vars {\"v\" {:from :workflow-input :path [:gone]}}}]}",
    );
    let script = Script::new().says(["never"]);
    let outcome = script.run(&program, r#"{"here":1}"#).await;
    assert_eq!(outcome.reason.as_deref(), Some("unresolved-variable"), "{outcome:?}");
    assert!(script.world().rounds.is_empty());
    let outcome = Script::new().says(["fine"]).run(&program, r#"{"gone":null}"#).await;
    assert_eq!(outcome.status, Status::Completed, "a null that is there is nothing, and no error");
}

#[tokio::test]
async fn a_conversation_that_ends_with_an_old_answer_asks_its_model_all_the_same() {
    let program = psi("{:name \"a\" :type :session :contributions [{:type :template :text \"Plan\"}]}
        {:name \"b\" :type :session :contributions [{:type :source :from {:step \"a\" :output :transcript}}]}");
    let script = Script::new().says(["old", "new"]);
    let outcome = script.run(&program, "{}").await;
    assert_eq!((outcome.result, script.world().rounds.len()), (json("\"new\""), 2));
}

#[tokio::test]
async fn a_model_that_would_be_asked_nothing_is_not_asked() {
    let gone = "{:type :source :from :workflow-input :path [:gone]}";
    for (steps, answers, who) in [
        (format!("{{:name \"s\" :type :session :contributions [{gone}]}}"), 0, "its model"),
        (format!("{{:name \"s\" :type :session :prompts [{{:name \"p\" :contributions [{gone}]}}]}}"), 0, "its model"),
        (
            format!(
                "{{:name \"s\" :type :session :contributions [{{:type :template :text \"t\"}}]
                :judge {{:type :llm :projection :none :contributions [{gone}]}} :on {{\"YES\" {{:goto :done}}}}}}"
            ),
            1,
            "its judge",
        ),
    ] {
        let script = Script::new().says(["work", "YES"]);
        let outcome = script.run(&psi(&steps), r#"{"here":1}"#).await;
        assert_eq!(outcome.reason.as_deref(), Some("nothing-asked"), "{outcome:?}");
        let message = format!(
            "Step 's': {who} would be asked nothing: contributions[0] (the workflow input at [:gone]) gave no text"
        );
        assert_eq!(outcome.message, Some(message));
        assert_eq!(script.world().rounds.len(), answers);
    }
}

#[tokio::test]
async fn a_composition_says_which_input_it_was_not_given() {
    let compositions = r#","compositions":{"work":{"version":1,"steps":[{"id":"a","kind":"prompt","prompt_task":"p","input":"${input.text}"}]}},
        "workflow":{"version":2,"entry":"s","states":{"s":{"orchestration":"composition","composition":"work","terminal":true}}}"#;
    let outcome = Script::new().says(["never"]).run(&pack("", compositions), "{}").await;
    let message = outcome.message.as_deref().unwrap();
    assert!(message.ends_with("unresolved reference \"${input.text}\"; the run's input has no `text`"), "{outcome:?}");
    assert!(outcome.details.unwrap().to_json().contains(r#""missing-inputs":["text"]"#));
}

#[tokio::test]
async fn probabilities_that_a_provider_gives_are_an_output_of_the_step() {
    let program = psi("{:name \"s\" :type :session :logprobs true :contributions [{:type :template :text \"t\"}]
        :outputs {:final-llm-reply {:source :session/final-llm-reply} :p {:source :session/logprobs}} :yields {:type :data :data :p}}");
    let outcome = Script::new().says(["fine"]).run(&program, "{}").await;
    assert_eq!((outcome.status, outcome.result), (Status::Completed, json("null")), "a provider that says nothing");
}

fn pack(prompt: &str, more: &str) -> Arc<Program> {
    let text = format!(
        r#"{{"id":"c","name":"C","version":"1.0.0","template_engine":{{"version":"v1","syntax":"{{{{variable}}}}"}},
        "prompts":{{"p":{{"id":"p","name":"P","version":"1.0.0","system_template":"Be brief."{prompt}}}}}{more}}}"#
    );
    compiled("c.json", &text)
}

#[tokio::test]
async fn a_rule_of_a_prompt_rewrites_what_its_model_says_before_anybody_sees_it() {
    let program = pack(r#","validators":[{"type":"banned_words","message":"No.","params":{"words":["gold"]}}]"#, "");
    let script = Script::new().says(["All the Gold!"]);
    let engine = script.engine();
    let options = RunOptions { detach: true, ..RunOptions::default() };
    let handle = engine.start(program, json(r#"{"input":"hi"}"#), options).await.unwrap();
    let outcome = handle.finished().await.unwrap();
    assert_eq!(outcome.result, json("\"No.\""), "{outcome:?}");
    let history = engine.history(handle.run()).await.unwrap();
    assert!(history.iter().any(|recorded| recorded.event.kind() == "guarded"));
}

#[tokio::test]
async fn parallel_groups_of_a_composition_may_nest() {
    let ask = |id: &str| format!(r#"{{"id":"{id}","kind":"prompt","prompt_task":"p","input":"{id}"}}"#);
    let inner = format!(
        r#"{{"id":"inner","kind":"parallel","branches":[{},{}],"reduce":{{"strategy":"append","into":"both"}}}}"#,
        ask("x"),
        ask("y")
    );
    let compositions = format!(
        r#","compositions":{{"work":{{"version":1,"steps":[{{"id":"outer","kind":"parallel","branches":[{},{inner}],"reduce":{{"strategy":"barrier","into":"all"}}}}]}}}},
        "workflow":{{"version":2,"entry":"a","states":{{"a":{{"orchestration":"composition","composition":"work","terminal":true}}}}}}"#,
        ask("z")
    );
    let script = Script::new().answers(|round| Message::assistant(round.messages.last().unwrap().content.clone()));
    let outcome = script.run(&pack("", &compositions), "{}").await;
    assert_eq!(outcome.status, Status::Completed, "{outcome:?}");
    assert_eq!(outcome.result, json(r#"{"all":{"z":"z","inner":{"both":["x","y"]}}}"#));
}

mod generated {
    //! Whatever the check passes without a warning, a run with a scripted model ends, and with something.

    use super::*;
    use opcell_engine::RunOutcome;
    use proptest::prelude::*;

    fn run(name: &str, text: &str, input: &str) -> Option<RunOutcome> {
        let compiled = document::compile(&SourceFile::new(name, text), &NoCompanions);
        let ir = compiled.ir.filter(|_| compiled.diagnostics.is_empty())?;
        let program = Program::new(ir).unwrap_or_else(|error| panic!("{error} in {text}"));
        let script = Script::new()
            .workflow(&super::compiled("i.edn", DATA))
            .operation("t", |_| Ok(json(r#"{"n":1,"list":[{"n":2},{"n":3}],"text":"words"}"#)))
            .answers(|_| Message::assistant("DONE"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Some(runtime.block_on(async {
            let run = script.run(&program, input);
            tokio::time::timeout(std::time::Duration::from_secs(60), run)
                .await
                .unwrap_or_else(|_| panic!("never ends: {text}"))
        }))
    }

    fn is_sound(outcome: &RunOutcome, text: &str) {
        let reason = outcome.reason.as_deref().unwrap_or_default();
        assert!(!matches!(reason, "internal" | "corrupt-state" | "panic" | "stuck"), "{outcome:?}\n{text}");
        match outcome.status {
            Status::Completed => assert!(!outcome.result.is_nullish(), "a silent null: {outcome:?}\n{text}"),
            Status::Failed => assert!(!reason.is_empty() && outcome.message.is_some(), "{outcome:?}\n{text}"),
            Status::Suspended => assert!(!outcome.questions.is_empty(), "{outcome:?}\n{text}"),
            other => panic!("{other}: {text}"),
        }
    }

    /// One psi step; references go to steps before it.
    fn step(at: usize, kind: u8, to: usize, judged: bool) -> String {
        let from = match at {
            0 => "{:from :workflow-input :path [:q]}".to_owned(),
            _ => {
                let field = ["data", "text"][kind as usize % 2];
                format!("{{:from {{:step \"s{}\" :yield :{field}}}}}", to % at)
            }
        };
        let judge = if judged {
            ":judge {:type :llm :contributions [{:type :template :text \"Done?\"}]} :on {\"DONE\" {:goto :next}}"
        } else {
            ""
        };
        match kind % 4 {
            0 => format!("{{:name \"s{at}\" :type :invoke :operation \"t\" :args {{:x {from}}} {judge}}}"),
            1 => format!(
                "{{:name \"s{at}\" :type :session :contributions [{{:type :template :text \"Do {{{{v}}}}\" :vars {{\"v\" {from}}}}}] {judge}}}"
            ),
            2 => format!(
                "{{:name \"s{at}\" :type :delegate :target \"i\" :prompt-string {{:type :template :text \"{{{{v}}}}\" :vars {{\"v\" {from}}}}} {judge}}}"
            ),
            _ => format!(
                "{{:name \"s{at}\" :type :transform :operation :map :expression {{:n \"$item.n\"}} :inputs {{:items {{:value [{{:n 1}}]}}}} {judge}}}"
            ),
        }
    }

    /// One WorkflowSkill step.
    fn skill_step(at: usize, kind: u8, to: usize) -> String {
        let value = if at == 0 { "$inputs.q".to_owned() } else { format!("$steps.s{}.output", to % at) };
        match kind % 3 {
            0 => format!(
                "  - {{ id: s{at}, type: tool, tool: t, inputs: {{ x: {{ type: object, value: {value} }} }} }}\n"
            ),
            1 => format!(
                "  - {{ id: s{at}, type: transform, operation: filter, where: $item.n > 0, inputs: {{ items: {{ type: array, value: [{{ n: 1 }}] }} }} }}\n"
            ),
            _ => format!("  - {{ id: s{at}, type: tool, tool: t, condition: $inputs.q != \"\" }}\n"),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn psi_documents(steps in proptest::collection::vec((0u8..8, 0usize..8, any::<bool>()), 1..6)) {
            let steps: Vec<String> = steps.iter().enumerate().map(|(at, (kind, to, judged))| step(at, *kind, *to, *judged)).collect();
            let text = format!("{{:name \"w\" :description \"d\" :steps [{}]}}", steps.join("\n"));
            if let Some(outcome) = run("w.edn", &text, r#"{"q":"why"}"#) {
                is_sound(&outcome, &text);
            }
        }

        #[test]
        fn skill_documents(steps in proptest::collection::vec((0u8..6, 0usize..8), 1..6)) {
            let steps: String = steps.iter().enumerate().map(|(at, (kind, to))| skill_step(at, *kind, *to)).collect();
            let text = format!("inputs:\n  q: {{ type: object }}\nsteps:\n{steps}");
            if let Some(outcome) = run("w.yaml", &text, r#"{"q":{"a":1}}"#) {
                is_sound(&outcome, &text);
            }
        }

        #[test]
        fn packs(states in proptest::collection::vec((0usize..4, any::<bool>(), any::<bool>()), 1..5)) {
            let last = states.len();
            let states: Vec<String> = states.iter().enumerate().map(|(at, (to, agent, external))| {
                let control = if *agent { r#","control":"agent""# } else { "" };
                let orchestration = if *external { "external" } else { "internal" };
                let to = (at + 1 + to).min(last);
                format!(r#""s{at}":{{"prompt_task":"p","on_event":{{"Go":"s{to}"}},"orchestration":"{orchestration}"{control}}}"#)
            }).collect();
            let workflow = format!(r#","workflow":{{"version":2,"entry":"s0","states":{{{},"s{last}":{{"prompt_task":"p","terminal":true}}}}}}"#, states.join(","));
            let text = format!(
                r#"{{"id":"c","name":"C","version":"1.0.0","template_engine":{{"version":"v1","syntax":"{{{{variable}}}}"}},
                "prompts":{{"p":{{"id":"p","name":"P","version":"1.0.0","system_template":"Be brief."}}}}{workflow}}}"#
            );
            if let Some(outcome) = run("c.json", &text, r#"{"input":"hi"}"#) {
                is_sound(&outcome, &text);
            }
        }
    }
}
