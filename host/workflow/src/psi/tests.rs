use super::*;
use opcell_ir::{
    diagnostic::Diagnostic,
    ir::{Contribution, DelegateTarget, Form, Goto, Judge, ModelSelection, PromptString, Session, Step, ThinkingLevel},
    names::Outcome,
};
use std::collections::HashMap;

struct Folder(HashMap<&'static str, &'static str>);

impl Companions for Folder {
    fn text(&self, path: &str) -> Option<Result<String, String>> {
        self.0.get(path).map(|text| Ok((*text).to_owned()))
    }
}

fn compiled(text: &str) -> Compiled {
    compile_edn(&SourceFile::new("w.edn", text), &crate::companions::NoCompanions)
}

/// A workflow of the given steps.
fn steps(steps: &str) -> String {
    format!("{{:name \"w\" :description \"d\" :steps [{steps}]}}")
}

fn ir(text: &str) -> Arc<WorkflowIr> {
    let compiled = compiled(text);
    compiled.ir.unwrap_or_else(|| panic!("{:#?}", compiled.diagnostics))
}

fn errors(found: &[Diagnostic]) -> Vec<&str> {
    found.iter().filter(|d| d.severity == Severity::Error).map(|d| d.message.as_str()).collect()
}

/// The messages of the errors in a workflow of the given steps.
fn refused(text: &str) -> Vec<String> {
    let compiled = compiled(&steps(text));
    assert!(compiled.ir.is_none() || errors(&compiled.diagnostics).is_empty());
    errors(&compiled.diagnostics).into_iter().map(str::to_owned).collect()
}

fn warnings(text: &str) -> Vec<(String, Option<String>)> {
    let found = compiled(text).diagnostics;
    assert_eq!(errors(&found), Vec::<&str>::new());
    found.into_iter().map(|d| (d.message, d.help)).collect()
}

fn session(step: &Step) -> &Session {
    match &step.form {
        Form::Session { session } => session,
        other => panic!("{other:?}"),
    }
}

mod loading {
    use super::*;

    #[test]
    fn a_misspelt_key_of_the_root_is_where_the_missing_one_is_reported() {
        for (text, line, help) in [
            ("{:name \"w\"\n :stesp []}", 2, "unknown key `:stesp`; did you mean `:steps`?"),
            (
                "{:steps []\n :name \"w\"\n :descripton \"d\"}",
                3,
                "unknown key `:descripton`; did you mean `:description`?",
            ),
            ("{:steps [] :nmae \"w\"}", 1, "unknown key `:nmae`; did you mean `:name`?"),
        ] {
            let file = SourceFile::new("w.edn", text);
            let compiled = compiled(text);
            let error = &compiled.diagnostics[0];
            assert_eq!(error.help.as_deref(), Some(help));
            assert_eq!(file.position(error.span.unwrap().start).line, line, "{text}");
        }
        // Another key that is known is not taken for the missing one.
        assert_eq!(compiled("{:steps [] :name \"w\" :definition-id \"d\"}").diagnostics[0].help, None);
    }

    #[test]
    fn the_root_is_checked_in_order() {
        for (text, message) in [
            ("", "Workflow EDN file must contain a map root"),
            ("[]", "Workflow EDN file must contain a map root"),
            ("{:steps [", "Invalid EDN workflow definition: EOF while reading"),
            ("{:a #foo 1}", "Invalid EDN workflow definition: No reader function for tag foo"),
            ("{}", "Workflow EDN files must define target-authored `{:steps [...]}` config"),
            ("{:steps [{:name \"a\"}]}", "Workflow EDN files must define target-authored `{:steps [...]}` config"),
            ("{:steps []}", "Workflow EDN files must define top-level `:name` as a string"),
            ("{:steps [] :name \" \"}", "Workflow EDN files must define top-level `:name` as a non-blank string"),
            ("{:steps [] :name \"w\"}", "Workflow EDN files must define top-level `:description` as a string"),
            (
                "{:steps [] :name \"w\" :description \"\"}",
                "Workflow EDN files must define top-level `:description` as a non-blank string",
            ),
            ("{:steps [] :name \"w\" :description \"d\"}", "Structural error at [:steps]: invalid value"),
        ] {
            let compiled = compiled(text);
            assert_eq!(errors(&compiled.diagnostics), [message], "{text}");
            assert!(compiled.ir.is_none() && compiled.diagnostics[0].span.is_some(), "{text}");
        }
    }

    #[test]
    fn duplicate_keys_name_both_places() {
        let text = "{:advertise false :steps [] :advertise false}";
        let found = compiled(text).diagnostics;
        assert_eq!(errors(&found), ["Invalid EDN workflow definition: Duplicate key: :advertise"]);
        assert_eq!((found[0].span.unwrap().start, found[0].related[0].0.start), (28, 1));
    }

    #[test]
    fn what_psi_ignores_is_a_warning() {
        let text = steps("{:name \"a\" :type :invoke :operaton \"x\" :operation \"x/y\" :arg {}}") + " {:more true}";
        let reported = warnings(&text);
        assert_eq!(
            reported,
            [
                ("text after the first form is ignored".to_owned(), Some("a workflow file holds one map".to_owned())),
                (
                    "Unknown key :operaton in an invoke step; it has no effect".to_owned(),
                    Some("did you mean :operation?".to_owned())
                ),
                (
                    "Unknown key :arg in an invoke step; it has no effect".to_owned(),
                    Some("did you mean :args?".to_owned())
                ),
            ]
        );
    }

    const PLAIN: &str = "---\nname: p\ndescription: d\ntools:\n  - read\nmodel: m-1\n---\nDo {{input}}.";

    fn with_prompts(text: &str) -> Compiled {
        let folder = Folder(HashMap::from([
            ("p.md", PLAIN),
            ("bad.md", "no front matter"),
            ("tokens.md", "---\nname: t\ndescription: d\n---\nSay {{foo}}"),
        ]));
        compile_edn(&SourceFile::new("w.edn", steps(text)), &folder)
    }

    #[test]
    fn a_prompt_workflow_gives_the_prompt_and_what_the_step_does_not_set() {
        let compiled = with_prompts("{:name \"a\" :type :session :prompt-workflow \"p.md\" :tools [\"bash\"]}");
        let ir = compiled.ir.unwrap();
        let session = session(&ir.steps[0]);
        assert_eq!(session.tools.as_deref(), Some(&["bash".to_owned()][..]));
        assert_eq!(session.model, Some(ModelSelection::Id("m-1".to_owned())));
        let Contribution::Template(template) = &session.contributions[0] else { panic!() };
        assert_eq!(template.text.as_ref(), "Do {{input}}.");
        assert!(template.vars.contains_key("input"));
    }

    #[test]
    fn a_prompt_group_takes_the_body_only() {
        let ir = with_prompts(
            "{:name \"a\" :type :session :prompts [{:name \"one\" :prompt-workflow \"p.md\"}
                {:name \"two\" :contributions [{:type :template :text \"t\"}]}]}",
        )
        .ir
        .unwrap();
        let session = session(&ir.steps[0]);
        let names: Vec<&str> = session.prompts.iter().map(|group| group.name.as_ref()).collect();
        assert_eq!((names, &session.tools, &session.model), (vec!["one", "two"], &None, &None));
    }

    #[test]
    fn prompt_workflows_are_refused_with_psis_reasons() {
        let outside = "`:prompt-workflow` must be a relative .md path within the consuming workflow directory";
        for (step, message) in [
            (":type :invoke :prompt-workflow \"p.md\"", "`:prompt-workflow` is allowed only on `:session` steps"),
            (":type :session :prompt-workflow :p", "`:prompt-workflow` must be a relative .md file string"),
            (":type :session :prompt-workflow \"../p.md\"", outside),
            (":type :session :prompt-workflow \"/p.md\"", outside),
            (":type :session :prompt-workflow \"a/../p.md\"", outside),
            (":type :session :prompt-workflow \"\"", outside),
            (
                ":type :session :prompt-workflow \"p.md\" :system-prompt \"s\"",
                "`:prompt-workflow` cannot be combined with another authored prompt source",
            ),
            (":type :session :prompt-workflow \"p.edn\"", "`:prompt-workflow` must reference a .md file, got `p.edn`"),
            (":type :session :prompt-workflow \"q.md\"", "Referenced prompt workflow file not found: \"q.md\""),
            (
                ":type :session :prompt-workflow \"bad.md\"",
                "Referenced prompt workflow `bad.md` is invalid: Missing required frontmatter key: name",
            ),
            (
                ":type :session :prompt-workflow \"tokens.md\"",
                "Unknown {{varname}} tokens in workflow body: (\"foo\"). Declare them in the `vars:` frontmatter or use standard vars {{input}} or {{original}}.",
            ),
            (":type :delegate :prompts []", "`:prompts` is allowed only on `:session` steps"),
            (
                ":type :session :prompts [] :contributions []",
                "`:prompts` cannot be combined with a step-level `:contributions`/`:system-prompt` prompt source",
            ),
            (
                ":type :session :prompts [] :prompt-workflow \"p.md\"",
                "`:prompts` cannot be combined with a step-level `:prompt-workflow`",
            ),
            (
                ":type :session :prompts [{:name \"g\" :prompt-workflow \"p.md\" :contributions []}]",
                "A prompt-group must define `:prompt-workflow` XOR `:contributions`, not both",
            ),
            (
                ":type :session :prompts [{:name \"g\"}]",
                "A prompt-group must define `:prompt-workflow` or `:contributions`",
            ),
        ] {
            let compiled = with_prompts(&format!("{{:name \"a\" {step}}}"));
            assert_eq!(errors(&compiled.diagnostics), [message], "{step}");
        }
    }
}

mod markdown {
    use super::*;

    fn document(text: &str) -> Compiled {
        compile_markdown(&SourceFile::new("w.md", text))
    }

    fn front(extra: &str, body: &str) -> String {
        format!("---\nname: w\ndescription: d\n{extra}---\n{body}")
    }

    #[test]
    fn a_file_becomes_one_session_step() {
        let ir = document(&front("advertise: FALSE\n", "\n Do {{input}} for {{original}}, keep {{1bad}} and {{}}. \n"))
            .ir
            .unwrap();
        assert_eq!((ir.name.as_ref(), ir.description.as_deref(), ir.advertise), ("w", Some("d"), false));
        assert_eq!((ir.steps.len(), ir.steps[0].name.as_ref()), (1, "step"));
        let json = serde_json::to_value(&session(&ir.steps[0]).contributions).unwrap();
        assert_eq!(
            json,
            serde_json::json!([{"type": "template", "text": "Do {{input}} for {{original}}, keep {{1bad}} and {{}}.", "vars": {
                "input": {"from": "workflow-input", "path": ["input"]},
                "original": {"from": "workflow-original"},
            }}])
        );
    }

    #[test]
    fn scalars_have_the_type_that_their_key_asks_for() {
        let extra = "thinking-level: :low\ntemperature: 0.3\nlogprobs: true\ntop-logprobs: 4\nresponse-mode: non-streaming\n\
                     session-profile: careful\ntools: [read, \"bash\"]\nmodel: \"m:8b\"\n\
                     prompt-component-selection: {:components #{:skills}}\n";
        let ir = document(&front(extra, "Go.")).ir.unwrap();
        let session = session(&ir.steps[0]);
        assert_eq!(session.thinking_level, Some(ThinkingLevel::Low));
        assert_eq!((session.temperature, session.logprobs, session.top_logprobs), (Some(0.3), Some(true), Some(4)));
        assert_eq!(session.response_mode, Some(opcell_ir::ir::ResponseMode::NonStreaming));
        assert_eq!(session.session_profile.as_deref(), Some("careful"));
        assert_eq!(session.tools.as_deref(), Some(&["read".to_owned(), "bash".to_owned()][..]));
        assert_eq!(session.model, Some(ModelSelection::Id("m:8b".to_owned())));
        assert!(session.prompt_component_selection.is_some());
    }

    #[test]
    fn a_scalar_that_does_not_fit_is_refused_where_it_stands() {
        let text = front("temperature: warm\nthinking-level: lots\n", "Go.");
        let found = document(&text).diagnostics;
        assert_eq!(
            errors(&found),
            [
                "Structural error at [:steps 0 :session :thinking-level]: invalid value",
                "Structural error at [:steps 0 :session :temperature]: invalid value"
            ]
        );
        let span = found[1].span.unwrap();
        assert_eq!(&text[span.start..span.end], "warm");
    }

    #[test]
    fn declared_variables_are_bound() {
        let text = front("vars: '{\"aspect\" {:from :workflow-input :path [:aspect]}}'\n", "Look at {{aspect}}.");
        let ir = document(&text).ir.unwrap();
        let Contribution::Template(template) = &session(&ir.steps[0]).contributions[0] else { panic!() };
        assert!(template.vars.contains_key("aspect"));
    }

    #[test]
    fn files_are_refused_with_psis_reasons_in_psis_order() {
        let vars = |value: &str| front(&format!("vars: {value}\n"), "{{input}}");
        for (text, message) in [
            ("".to_owned(), "Missing required frontmatter key: name"),
            ("Just text".to_owned(), "Missing required frontmatter key: name"),
            ("---\nname: w\n".to_owned(), "Missing required frontmatter key: name"),
            ("---\nname: w\n---\nGo.".to_owned(), "Missing required frontmatter key: description"),
            ("---\nname: w\ndescription:\n---\nGo.".to_owned(), "Missing required frontmatter key: description"),
            (
                front("prompt-mode: prose\nlambda: x\n", "Go."),
                "Unsupported markdown workflow frontmatter key: :prompt-mode",
            ),
            (front("lambda: x\nfoo: y\n", ""), "Unsupported markdown workflow frontmatter keys: [:lambda :foo]"),
            (vars("'{bad edn'"), "Invalid `vars:` frontmatter: Invalid EDN workflow definition: EOF while reading"),
            (vars("'[1 2 3]'"), "Invalid `vars:` frontmatter: value must be an EDN map"),
            (
                vars("'{\"x\" {:from {:step \"a\" :output :b}} \"y\" 1}'"),
                "Invalid `vars:` frontmatter: unsupported :from values [{:step \"a\", :output :b} nil]; allowed: :workflow-input, :workflow-original",
            ),
            (front("", " \n"), "Standalone markdown workflow body must not be empty"),
            (
                front("", "\n{:tools []}\nGo."),
                "Markdown workflow body must not begin with an EDN workflow definition block",
            ),
            (front("", "{{input}}"), "Markdown workflow body must not begin with an EDN workflow definition block"),
            (
                front("", "Say {{b}} {{a}}"),
                "Unknown {{varname}} tokens in workflow body: (\"a\" \"b\"). Declare them in the `vars:` frontmatter or use standard vars {{input}} or {{original}}.",
            ),
        ] {
            assert_eq!(errors(&document(&text).diagnostics), [message], "{text}");
        }
    }

    #[test]
    fn lines_that_psi_skips_are_warnings() {
        let found = document(&front("just words\nname: other\n", "Go.")).diagnostics;
        let codes: Vec<_> = found.iter().map(|d| d.code).collect();
        assert_eq!(codes, ["ignored-front-matter", "duplicate-key"]);
    }
}

mod steps {
    use super::*;

    #[test]
    fn the_whole_grammar_compiles_with_its_defaults() {
        let ir = ir("{:name \"w\" :description \"d\" :advertise false :terminal-contract {:handoff {:type :markdown-handoff-data}}
            :steps [
              {:name \"find\" :type :invoke :operation \"repo/find\" :args {:repo {:from :workflow-input :path [:repo]} :n 3 :lit {:a [:b]} :v {:value nil}}}
              {:name \"say\" :type :session :model {:type :model-query :require [:cheap] :prefer [{:criterion :cost}] :fallback \"m\"}
               :temperature 0.3 :thinking-level :xhigh :session-profile :careful
               :contributions [{:type :source :from :workflow-original}
                               {:type :template :text \"{{x}}\" :vars {\"x\" {:from {:step \"find\" :output :data} :path [:issues 0]}}}]
               :judge {:type :llm :temperature 1.2 :projection {:type :tail :turns 2 :tool-output false}
                       :contributions [{:type :template :text \"YES or NO\" :vars {}}]}
               :on {\"YES\" {:goto :next} :NO {:goto \"find\" :max-iterations 3 :on-max-iterations :done}}}
              {:name \"call\" :type :delegate :target {:from {:step \"find\" :output :data} :path [:ref]} :model \"m-2\"
               :prompt-string {:type :map :fields {:input {:from {:step \"say\" :yield :text}} :k {:value 1}}}
               :context [{:type :source :from :workflow-original}]}
              {:name \"ship\" :type :delegate :target \"shipper\" :prompt-string \"go\" :max-iterations 2
               :judge {:type :invoke :operation \"j/j\" :args {:text {:from {:step \"ship\" :output :handoff}}}} :on {\"X\" {:goto :done}}}]}");
        let json = serde_json::to_value(&*ir).unwrap();
        assert_eq!(json["advertise"], false);
        assert_eq!(json["terminal-contract"]["handoff"]["type"], "markdown-handoff-data");
        let [find, say, call, ship] = json["steps"].as_array().unwrap().as_slice() else { panic!() };
        assert_eq!(
            find["invoke"]["args"],
            serde_json::json!({"repo": {"from": "workflow-input", "path": ["repo"]}, "n": {"value": 3}, "lit": {"value": {"a": ["b"]}}, "v": {"value": null}})
        );
        assert_eq!(find["outputs"]["result"]["source"], "invoke/result");
        assert_eq!(find["yields"], serde_json::json!({"type": "data", "data": "data"}));
        assert_eq!(say["session"]["temperature"], 0.3);
        assert_eq!(say["session"]["model"]["fallback"], "m");
        assert_eq!(say["judge"]["session"]["temperature"], 1.2);
        assert_eq!(say["yields"], serde_json::json!({"type": "text", "text": "final-llm-reply"}));
        assert_eq!(
            say["on"],
            serde_json::json!([
                {"outcome": {"text": "YES"}, "goto": "next"},
                {"outcome": {"keyword": "NO"}, "goto": {"step": "find"}, "max-iterations": 3, "on-max-iterations": "done"}
            ])
        );
        assert_eq!(call["delegate"]["session"], serde_json::json!({"model": "m-2"}));
        assert_eq!(call["delegate"]["prompt-string"]["fields"]["k"], serde_json::json!({"value": 1}));
        assert_eq!(call["yields"], serde_json::json!({"type": "delegated"}));
        assert_eq!(ship["outputs"], serde_json::json!({"handoff": {"source": "delegate/handoff"}}));
        assert_eq!(ship["max-iterations"], 2);
        // What was written is what is read.
        let again: WorkflowIr = serde_json::from_value(json).unwrap();
        assert_eq!(again, *ir);
    }

    #[test]
    fn a_delegate_may_say_how_its_callees_sessions_run() {
        let ir = ir(&super::steps(
            "{:name \"d\" :type :delegate :target \"t\" :prompt-string \"p\" :tools [\"read\"] :skills [\"s\"] :prompt-mode :prose
              :system-prompt \"Mind the style.\" :temperature 0.3}",
        ));
        let Form::Delegate { delegate } = &ir.steps[0].form else { panic!() };
        assert_eq!(
            serde_json::to_value(&delegate.session).unwrap(),
            serde_json::json!({"tools": ["read"], "skills": ["s"], "prompt-mode": "prose", "system-prompt": "Mind the style.",
                "temperature": 0.3})
        );
    }

    #[test]
    fn a_workflows_own_instructions_come_before_those_of_its_steps_and_reach_its_callees() {
        let ir = ir("{:name \"w\" :description \"d\" :system-prompt \"House rules.\" :steps [
            {:name \"a\" :type :session :system-prompt \"Do it.\" :contributions [{:type :template :text \"t\"}]}
            {:name \"d\" :type :delegate :target \"t\" :prompt-string \"p\"}]}");
        assert_eq!(session(&ir.steps[0]).system_prompt.as_deref(), Some("House rules.\n\nDo it."));
        let Form::Delegate { delegate } = &ir.steps[1].form else { panic!() };
        assert_eq!(delegate.session.system_prompt.as_deref(), Some("House rules."));
    }

    #[test]
    fn what_an_author_could_take_for_a_token_or_a_reference_and_is_none_is_a_warning() {
        let talk = super::steps(
            "{:name \"a\" :type :session :contributions [{:type :template :text \"{{ b }} {{b}}\" :vars {\"b\" {:from :workflow-input}}}]}",
        );
        let reported = warnings(&talk);
        assert_eq!(
            reported,
            [(
                "`{{ b }}` stays in the text as it is written: a token has no blanks".to_owned(),
                Some("write `{{b}}`".to_owned())
            )]
        );
        let invoke =
            |args: &str| super::steps(&format!("{{:name \"a\" :type :invoke :operation \"x/y\" :args {{{args}}}}}"));
        for args in [":n {:x {:from :workflow-input}}", ":n [{:from {:step \"z\" :output :data}}]"] {
            let reported = warnings(&invoke(args));
            assert!(reported.len() == 1 && reported[0].0.contains("stays data"), "{reported:?}");
        }
        let reported = warnings(&invoke(":n {:value 3 :unit \"kg\"}"));
        assert!(reported[0].1.as_deref().unwrap().contains("{:value {:value 3"), "{reported:?}");
        let quoted = ir(&invoke(":n {:value {:value 3 :unit \"kg\"}} :m {:value {:from \"ada\"}}"));
        let json = serde_json::to_value(&quoted.steps[0]).unwrap();
        assert_eq!(json["invoke"]["args"]["n"], serde_json::json!({"value": {"value": 3, "unit": "kg"}}));
        assert_eq!(json["invoke"]["args"]["m"], serde_json::json!({"value": {"from": "ada"}}));
        let refused = compiled(&invoke(":n {:from \"ada\" :to \"bob\"}")).diagnostics;
        assert!(refused[0].help.as_deref().unwrap().contains("write {:value {:from \"ada\""), "{refused:?}");
    }

    #[test]
    fn an_output_that_nothing_produces_is_a_warning() {
        let text =
            super::steps("{:name \"a\" :type :invoke :operation \"x/y\" :outputs {:data {:source :invoke/dtaa}}}");
        let reported = warnings(&text);
        assert_eq!(reported[0].1.as_deref(), Some("did you mean :invoke/data?"), "{reported:?}");
    }

    #[test]
    fn a_judge_that_is_asked_nothing_is_an_error() {
        for contributions in ["", ":contributions []"] {
            let found = refused(&format!(
                "{{:name \"a\" :type :invoke :operation \"x/y\" :judge {{:type :llm {contributions}}} :on {{\"X\" {{:goto :done}}}}}}"
            ));
            assert!(found.len() == 1 && found[0].contains("requires :contributions"), "{found:?}");
        }
    }

    #[test]
    fn string_and_keyword_outcomes_stay_apart() {
        let ir = ir(&super::steps(
            "{:name \"a\" :type :invoke :operation \"x/y\" :judge {:type :invoke :operation \"j/j\"} :on {\"X\" {:goto :done} :X {:goto \"a\"}}}",
        ));
        let routes: Vec<(&Outcome, &Goto)> = ir.steps[0].on.iter().map(|route| (&route.outcome, &route.goto)).collect();
        assert_eq!(
            routes,
            [(&Outcome::Text("X".into()), &Goto::Done), (&Outcome::Keyword("X".into()), &Goto::Step("a".into()))]
        );
    }

    #[test]
    fn absent_settings_stay_absent_and_static_targets_are_names() {
        let ir = ir(&super::steps(
            "{:name \"a\" :type :session :contributions [{:type :template :text \"t\"}]} {:name \"b\" :type :delegate :target \"t\" :prompt-string \"p\"}",
        ));
        let session = session(&ir.steps[0]);
        assert_eq!((session.temperature, &session.tools), (None, &None));
        let Form::Delegate { delegate } = &ir.steps[1].form else { panic!() };
        assert_eq!(delegate.target, DelegateTarget::Name("t".into()));
        assert_eq!(delegate.prompt_string, PromptString::Text("p".into()));
    }

    #[test]
    fn compile_errors_name_their_step() {
        let at = |message: &str| format!("Step 'a' (index 0): {message}");
        let session = |contributions: &str| format!("{{:name \"a\" :type :session :contributions [{contributions}]}}");
        let profile = at(
            "Session profile names must be selectable unqualified non-reserved keywords matching /session-profile token grammar",
        );
        for (step, message) in [
            ("{:name \"a\" :type :other}".to_owned(), at("Unsupported target workflow step type")),
            ("{:type :other}".to_owned(), "Unsupported target workflow step type".to_owned()),
            (session("{:type :other}"), at("Unsupported target workflow contribution type")),
            (session("{:type :source}"), at("Target workflow source-spec requires `:from`")),
            (
                session("{:type :source :from :workflow-input :path [:a] :projection :none}"),
                at("Target workflow source-spec cannot contain both `:path` and `:projection`"),
            ),
            (
                session("{:type :template :text \"{{x}}\" :vars {\"x\" 1}}"),
                at("Target workflow source-spec must be a map"),
            ),
            (
                session("{:type :template :text \"{{x}}\" :vars {\"x\" {:value 1}}}"),
                at("Target workflow source-spec requires `:from`"),
            ),
            (
                "{:name \"a\" :type :delegate :target {:path [:x]} :prompt-string \"p\"}".to_owned(),
                at("Delegate target must be a workflow name string or workflow source-spec"),
            ),
            (
                "{:name \"a\" :type :invoke :operation \"x/y\" :judge {:type :other} :on {\"X\" {:goto :done}}}"
                    .to_owned(),
                at("Unsupported target workflow judge type"),
            ),
            (
                "{:name \"a\" :type :delegate :target \"t\" :prompt-string \"p\" :session-profile \"text\"}".to_owned(),
                profile.clone(),
            ),
            (
                "{:name \"a\" :type :delegate :target \"t\" :prompt-string \"p\" :session-profile :clear}".to_owned(),
                profile,
            ),
        ] {
            let found = refused(&step);
            let unnamed = found.iter().filter(|message| !message.contains(":name")).cloned().collect::<Vec<_>>();
            assert_eq!(unnamed, [message], "{step}");
        }
    }

    #[test]
    fn structural_errors_say_where() {
        let invoke = |more: &str| format!("{{:name \"a\" :type :invoke :operation \"x/y\" {more}}}");
        let talk = |more: &str| {
            format!("{{:name \"a\" :type :session :contributions [{{:type :template :text \"t\"}}] {more}}}")
        };
        let judged =
            |route: &str| invoke(&format!(":judge {{:type :invoke :operation \"j/j\"}} :on {{\"X\" {route}}}"));
        for (step, place) in [
            ("{:type :invoke :operation \"x/y\"}".to_owned(), ":steps 0 :name]: missing-key"),
            ("{:name :a :type :invoke :operation \"x/y\"}".to_owned(), ":steps 0 :name]: invalid value"),
            ("{:name \"a\" :type :invoke}".to_owned(), ":steps 0 :invoke :operation]: missing-key"),
            (invoke(":args [1]"), ":steps 0 :invoke :args]: invalid value"),
            (invoke(":args {\"x\" 1}"), ":steps 0 :invoke :args]: invalid value"),
            (invoke(":args {:x {:from :workflow-runtime}}"), ":steps 0 :invoke :args :x :from]: invalid value"),
            (invoke(":args {:x {:from {:step \"a\"}}}"), ":steps 0 :invoke :args :x :from]: invalid value"),
            (invoke(":args {:x ##Inf}"), ":steps 0 :invoke :args :x]: invalid value"),
            (invoke(":args {:x 123456789012345678901}"), ":steps 0 :invoke :args :x]: invalid value"),
            (invoke(":args {:x {:k 1 \"k\" 2}}"), ":steps 0 :invoke :args :x]: invalid value"),
            (invoke(":max-iterations 0"), ":steps 0 :max-iterations]: invalid value"),
            (invoke(":yields {:type :other}"), ":steps 0 :yields :type]: invalid value"),
            (invoke(":yields {:type :data}"), ":steps 0 :yields :data]: missing-key"),
            (invoke(":outputs {:data {}}"), ":steps 0 :outputs :data :source]: missing-key"),
            (talk(":temperature 0"), ":steps 0 :session :temperature]: invalid value"),
            (talk(":temperature 2.5"), ":steps 0 :session :temperature]: invalid value"),
            (talk(":top-logprobs 21"), ":steps 0 :session :top-logprobs]: invalid value"),
            (talk(":thinking-level :mega"), ":steps 0 :session :thinking-level]: invalid value"),
            (talk(":tools \"read\""), ":steps 0 :session :tools]: invalid value"),
            (talk(":model 5"), ":steps 0 :session :model]: invalid value"),
            ("{:name \"a\" :type :session :prompts []}".to_owned(), ":steps 0 :session :prompts]: invalid value"),
            (judged("{}"), ":steps 0 :on \"X\" :goto]: missing-key"),
            (judged("{:goto :end}"), ":steps 0 :on \"X\" :goto]: invalid value"),
            (judged("{:goto :done :max-iterations -1}"), ":steps 0 :on \"X\" :max-iterations]: invalid value"),
            (judged("{:goto :done :on-max-iterations :done}"), ":steps 0 :on \"X\" :on-max-iterations]: invalid value"),
            (invoke(":judge {:type :invoke :operation \"j/j\"} :on {1 {:goto :done}}"), ":steps 0 :on]: invalid value"),
            (
                "{:name \"a\" :type :delegate :target \"t\" :prompt-string \"p\" :context [{:type :template :text \"t\"}]}".to_owned(),
                ":steps 0 :delegate :context 0]: invalid value",
            ),
            ("{:name \"a\" :type :delegate :target \"t\"}".to_owned(), ":steps 0 :delegate :prompt-string]: missing-key"),
        ] {
            assert_eq!(refused(&step), [format!("Structural error at [{place}")], "{step}");
        }
    }

    #[test]
    fn a_token_without_a_binding_is_pointed_at_in_its_text() {
        let text = super::steps(
            "{:name \"a\" :type :session :contributions [{:type :template :text \"{{inptu}} {{}}\" :vars {\"input\" {:from :workflow-input}}}]}",
        );
        let found = compiled(&text).diagnostics;
        assert_eq!(found[0].message, "Template token {{inptu}} is not bound in :vars");
        assert!(errors(&found).is_empty(), "psi accepts it, so it stays a warning");
        assert!(found[0].help.as_deref().unwrap().starts_with("did you mean {{input}}?"));
        let span = found[0].span.unwrap();
        assert_eq!(&text[span.start..span.end], "\"{{inptu}} {{}}\"");
    }

    #[test]
    fn structured_outputs_keep_their_contract() {
        let ir = ir(&super::steps(
            "{:name \"a\" :type :session :contributions [{:type :template :text \"t\"}]
              :outputs {:verdict {:source :session/structured-output :mode :structured :schema-id :v :schema-version 2
                                  :schema [:map [:ok :boolean]] :json-schema {:type \"object\"} :on-invalid {:action :retry :max-attempts 3}
                                  :strategy-preference :provider-native :fallback :none}}
              :yields {:type :data :data :verdict}}",
        ));
        let structured = ir.steps[0].outputs["verdict"].structured.as_ref().unwrap();
        assert_eq!(
            (structured.schema_id.as_deref(), structured.schema_version, structured.max_attempts),
            (Some("v"), Some(2), 3)
        );
        assert_eq!(structured.malli_schema.as_deref(), Some("[:map [:ok :boolean]]"));
        assert_eq!(structured.fallback.as_deref(), Some("none"));
    }

    #[test]
    fn meaning_is_checked_in_place_once_the_form_is_right() {
        let text = super::steps(
            "{:name \"a\" :type :invoke :operation \"x/y\" :args {:v {:from {:step \"b\" :yield :data}}}} {:name \"b\" :type :invoke :operation \"x/y\"}",
        );
        let found = compiled(&text).diagnostics;
        assert_eq!(
            errors(&found),
            ["Step 'a': references step 'b' which is not prior (forward/self references are not allowed)"]
        );
        let span = found[0].span.unwrap();
        assert_eq!(&text[span.start..span.end], "{:step \"b\" :yield :data}");
    }
}

mod own {
    use super::*;

    #[test]
    fn opcells_own_features_compile() {
        let ir = ir("{:name \"w\" :description \"d\" :inputs {:n {:type \"int\" :default 3}} :limits {:total-visits 50} :artifacts {:log {:type \"text/plain\" :mode :append}}
            :steps [{:name \"a\" :type :invoke :operation \"x/y\" :when \"$inputs.n > 1\" :each {:over \"$inputs.items\" :concurrency 4}
                     :retry {:max 2 :delay 100} :on-error :ignore :timeout 5000 :limits {:tool-calls 9 :cost 0.5} :capabilities {:tools []} :description \"s\"}
                    {:name \"pick\" :type :branch :condition \"$inputs.n == 1\" :then [\"t\"]}
                    {:name \"t\" :type :transform :operation :filter :where \"$item.ok\" :inputs {:items {:from {:step \"a\" :output :data}}}}
                    {:name \"ask\" :type :wait :signal \"go\" :question \"May I?\" :approval true
                     :judge {:type :expression :expression \"'X'\"} :on {\"X\" {:goto :next}}}
                    {:name \"end\" :type :exit :status :failed :output {:value 1}}]}");
        let json = serde_json::to_value(&*ir).unwrap();
        assert_eq!(json["steps"][0]["retry"], serde_json::json!({"max": 2, "delay-ms": 100.0, "backoff": 1.0}));
        assert_eq!(json["steps"][0]["timeout-ms"], 5000);
        assert_eq!(json["steps"][0]["limits"], serde_json::json!({"tool-calls": 9, "cost": 0.5}));
        assert_eq!(json["steps"][0]["capabilities"], serde_json::json!({"tools": []}));
        assert_eq!((ir.steps[1].grouped, ir.steps[2].grouped), (false, true));
        assert!(matches!(ir.steps[3].judge, Some(Judge::Expression { .. })));
        assert_eq!(json["steps"][4]["exit"], serde_json::json!({"status": "failed", "output": {"value": 1}}));
        assert_eq!(serde_json::from_value::<WorkflowIr>(json).unwrap(), *ir);
    }

    #[test]
    fn declared_inputs_are_a_schema_of_the_input() {
        let ir = ir("{:name \"w\" :description \"d\"
            :inputs {:item {:type \"string\"} :count {:type \"int\" :default 1 :schema {:maximum 10}}}
            :steps [{:name \"a\" :type :invoke :operation \"x/y\"}]}");
        let expected = serde_json::json!({
            "type": "object",
            "properties": {"item": {"type": "string"}, "count": {"type": "integer", "maximum": 10}},
            "required": ["item"],
        });
        assert_eq!(serde_json::Value::from(ir.input_schema.as_ref().unwrap()), expected);
    }

    #[test]
    fn an_input_has_one_of_the_types_there_are() {
        let text = "{:name \"w\" :description \"d\" :inputs {:n {:type \"integer\"}}
            :steps [{:name \"a\" :type :invoke :operation \"x/y\"}]}";
        let found = compiled(text).diagnostics;
        let said: Vec<&str> = found.iter().filter_map(|found| found.help.as_deref().or(Some(&found.message))).collect();
        assert!(said.iter().any(|said| said.contains("did you mean \"int\"?")), "{found:?}");
    }

    #[test]
    fn another_word_for_the_order_of_a_sort_is_told_the_right_one() {
        let found = compiled(&steps(
            "{:name \"a\" :type :transform :operation :sort :field \"n\" :direction :desc :inputs {:items {:from :workflow-input}}}",
        ));
        let found = found.diagnostics.iter().find(|found| found.message.contains(":direction")).unwrap();
        assert_eq!(found.help.as_deref(), Some("a sort is ascending unless it has `:descending true`"));
    }

    #[test]
    fn entries_into_a_step_are_no_limit_of_what_it_uses() {
        let found = warnings(&steps("{:name \"a\" :type :invoke :operation \"x/y\" :limits {:total-visits 3}}"));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].0, "Unknown key :total-visits in limits of a step; it has no effect");
    }

    #[test]
    fn an_expression_that_does_not_parse_is_an_error_at_once() {
        let found = refused("{:name \"a\" :type :invoke :operation \"x/y\" :when \"(1 +\"}");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("expression `(1 +`"), "{found:?}");
    }
}

mod properties {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_text_compiles_or_is_refused(text in any::<String>()) {
            let _ = compiled(&text);
            let _ = compile_markdown(&SourceFile::new("w.md", text));
        }

        #[test]
        fn workflows_made_of_any_edn_compile_or_are_refused(
            pieces in proptest::collection::vec(prop::sample::select(vec![
                ":type", ":invoke", ":session", ":delegate", ":name", "\"a\"", ":on", "{", "}", "[", "]", ":judge", ":args", ":from",
                ":step", ":output", ":path", "1", "nil", ":contributions", ":template", ":text", "\"{{x}}\"", ":vars", "#{", ":prompts",
                ":each", ":branch", ":goto", "\"../a.md\"", ":prompt-workflow", " ",
            ]), 0..30)
        ) {
            let _ = compiled(&steps(&pieces.join(" ")));
        }

        #[test]
        fn front_matter_of_any_lines_compiles_or_is_refused(text in "(---)?(\n(name|tools|vars|- |temperature)?:? ?['\"\\[{a-z]{0,4}){0,8}(\n---)?(\n.{0,20})?") {
            let _ = compile_markdown(&SourceFile::new("w.md", text));
        }
    }
}

#[test]
fn a_hundred_thousand_brackets_are_refused_at_once() {
    for text in ["[".repeat(100_000), steps(&"{:type ".repeat(100_000))] {
        let found = compiled(&text).diagnostics;
        assert_eq!(errors(&found), ["Invalid EDN workflow definition: nested deeper than 128 levels"]);
    }
}
