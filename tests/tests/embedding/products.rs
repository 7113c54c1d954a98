//! Products that embed Opcell: a command with a model of its own, tests with a clock of their own, and a plugin store.

use super::{builder, building::Jumping, component, component_asking, shop, tool};
use opcell::{ComponentStore, LiveHost, Question, StoreFailure, Timer as _, prelude::*};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

/// Adds up what it is asked, by calling a tool of the command.
struct Abacus;

#[async_trait]
impl Model for Abacus {
    async fn complete(&self, round: &ModelRound, sink: Option<&dyn TextSink>) -> Result<ModelReply, Failure> {
        let result = round.messages.iter().find(|message| message.tool_call_id.is_some());
        let Some(result) = result else {
            let asked = round.messages.last_of_user().map(|message| message.content.clone()).unwrap_or_default();
            let numbers: Vec<i64> = asked.split(|c: char| !c.is_ascii_digit()).flat_map(str::parse).collect();
            if numbers.is_empty() {
                return Err(Failure::host("nothing-to-add", "the question has no numbers"));
            }
            return Ok(ModelReply::text(&round.model, "").calling("1", "sum", opcell::json!({"numbers": numbers})));
        };
        let answer = format!("It is {}.", result.content);
        if let Some(sink) = sink {
            answer.split_inclusive(' ').for_each(|piece| sink.text(piece));
        }
        Ok(ModelReply::text(&round.model, answer))
    }
}

/// The terminal of the command.
#[derive(Default)]
struct Screen(Mutex<String>);

impl Screen {
    fn print(&self, text: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_str(text);
    }
}

impl RunText for Screen {
    fn text(&self, _: opcell::EffectId, piece: &str) {
        self.print(piece);
    }
}

const ASKING: &str = r#"{:name "ask" :description "Answers a question"
 :steps [{:name "ask" :type :session :model "abacus/small" :tools ["sum"]
          :contributions [{:type :template :text "{{question}}" :vars {"question" {:from :workflow-input :path [:question]}}}]}]}"#;

/// The `main` of a command: prints the answer piece by piece, and returns the exit code.
async fn command(question: &str, screen: Arc<Screen>) -> Result<u8, Box<dyn std::error::Error>> {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Numbers {
        numbers: Vec<i64>,
    }

    let sum = opcell::tool_fn("sum", "Adds up numbers.", async |of: Numbers, _| Ok(of.numbers.iter().sum::<i64>()));
    let host = Host::builder().provider("abacus", Abacus).document_tool(sum).build().await?;
    let options = RunOptions { sink: Some(screen.clone()), ..RunOptions::default() };
    let workflow = Workflow::compile("ask.edn", ASKING)?;
    let run = host.start_with(&workflow, opcell::json!({"question": question}), options).await?;
    let end = run.outcome().await?.ended()?;
    Ok(match end.status {
        Status::Completed => 0,
        _ => {
            screen.print(&format!("failed: {}", end.reason.as_deref().unwrap_or("no reason")));
            1
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_answers_with_a_model_and_a_tool_of_its_own() {
    for (question, code, shown) in [("What is 20 and 22?", 0, "It is 42."), ("Why?", 1, "failed: nothing-to-add")] {
        let screen = Arc::new(Screen::default());
        assert_eq!(command(question, screen.clone()).await.unwrap(), code);
        assert_eq!(*screen.0.lock().unwrap(), shown);
    }
}

const INVOICE: &str = r#"{:name "invoice" :description "Sends an invoice, and reminds once"
 :steps [{:name "send" :type :invoke :operation "shop.price" :args {:article 7} :retry {:max 3 :delay 86400000}}
         {:name "pay" :type :wait :signal "paid" :approval true :question "Is it paid?"}
         {:name "end" :type :exit :status :success :output {:from {:step "pay" :output :data} :path [:why]}}]}"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_harness_tests_a_workflow_of_days_with_doubles_and_a_clock_of_its_own() {
    let clock = Arc::new(Jumping::default());
    let sent = Arc::new(Mutex::new(Vec::new()));
    let (watch, seen) = (clock.clone(), sent.clone());
    // A double of the mail server, which is down for two days.
    let mail = tool(move |_, _| {
        let day = watch.now().0 / 86_400_000_000;
        seen.lock().unwrap().push(day);
        async move { if day < 2 { Err(Failure::host("mail-down", "later").retriable()) } else { Ok(1) } }
    });
    let host = builder().document_tool(mail).timer(clock.clone()).build().await.unwrap();
    let options = RunOptions { detach: true, ..RunOptions::default() };
    let run = host.start_with(&Workflow::compile("invoice.edn", INVOICE).unwrap(), Value::Null, options).await.unwrap();
    let Outcome::Suspended(questions) = run.outcome().await.unwrap() else { panic!("it does not ask") };
    let [Question::Signal { name, .. }] = &questions[..] else { panic!("{questions:?}") };
    assert_eq!(&**name, "paid");
    assert_eq!(*sent.lock().unwrap(), [0, 1, 2]);
    host.run(run.id()).approve("paid", Decision::approve().by("ann").why("cash")).await.unwrap();
    let run = host.resume(run.id(), opcell::ResumeOptions::default()).await.unwrap();
    assert_eq!(run.outcome().await.unwrap().ended().unwrap().result, Value::from("cash"));
    // The journal has the simulated times.
    let history = host.run(run.id()).history().await.unwrap();
    assert_eq!(history.last().unwrap().at.0 / 86_400_000_000, 2);
}

/// The components that publishers have uploaded, by their names.
#[derive(Default)]
struct Published(Mutex<BTreeMap<String, Vec<u8>>>);

impl Published {
    fn publish(&self, name: &str, component: Vec<u8>) {
        self.0.lock().unwrap().insert(name.to_owned(), component);
    }
}

#[async_trait]
impl ComponentStore for Published {
    async fn component(&self, plugin: &str) -> Result<Vec<u8>, StoreFailure> {
        self.0.lock().unwrap().get(plugin).cloned().ok_or_else(|| format!("{plugin} is not published").into())
    }
}

/// The tools that a component asks for. Without grants it reaches nothing, so it can be loaded to be asked.
async fn asks_for(store: &Arc<Published>, name: &str) -> Result<Vec<String>, HostError> {
    let host = builder().plugin(PluginConfig::stored(name, store.clone())).build().await?;
    let plugin = host.catalog().plugins().next().unwrap();
    Ok(plugin.manifest().tools.iter().map(|tool| tool.name.clone()).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_store_installs_updates_and_removes_what_its_users_agree_to() {
    let store = Arc::new(Published::default());
    let live = LiveHost::new(builder().tool(tool(async |_, _| Ok(12))).build().await.unwrap());
    assert!(asks_for(&store, "shop").await.unwrap_err().to_string().contains("shop is not published"));
    store.publish("shop", component());
    store.publish("broken", b"not a component".to_vec());

    // The user sees what the plugin asks for, and agrees.
    assert_eq!(asks_for(&store, "shop").await.unwrap(), ["shop.price"]);
    let installed = PluginConfig::stored("shop", store.clone()).grant(Grant::tool("shop.price"));
    live.add(installed.clone()).await.unwrap();
    let asked = || opcell::json!({"article": 7});
    assert_eq!(live.now().invoke("test/run", asked()).await.unwrap().data, Value::from(12));

    // A version that asks for more gets what the user agreed to, and no more.
    store.publish("shop", component_asking(&["shop.price", "shop.buy"]));
    assert_eq!(asks_for(&store, "shop").await.unwrap(), ["shop.price", "shop.buy"]);
    let before = live.now();
    live.replace(installed.clone()).await.unwrap();
    let digest = |host: &Host| host.catalog().plugins().next().unwrap().digest().to_string();
    assert_ne!(digest(&before), digest(&live.now()));
    assert_eq!(live.now().invoke("test/run", asked()).await.unwrap().data, Value::from(12));

    // A version that cannot be used changes nothing, nor does a plugin that is not installed.
    store.publish("shop", b"not a component".to_vec());
    let kept = digest(&live.now());
    assert!(matches!(live.replace(installed).await, Err(HostError::Plugin(_))));
    assert!(live.replace(PluginConfig::stored("broken", store)).await.is_err());
    assert_eq!(digest(&live.now()), kept);
    assert!(live.now().invoke("test/run", asked()).await.is_ok());

    live.remove("shop").await.unwrap();
    assert_eq!(live.now().invoke("test/run", asked()).await.unwrap_err().kind(), FailureKind::Unknown);
    // Where a plugin comes from is not exchanged: its file would have to be kept from all grants.
    live.add(shop()).await.unwrap();
    let error = live.replace(PluginConfig::new("shop", "elsewhere.wasm")).await.unwrap_err().to_string();
    assert!(error.contains("its component is at another place"), "{error}");
}
