//! Tenants over the plugins of one host, and plugins that come and go.

use super::{builder, component, shop, tool};
use opcell::{LiveHost, Tenant, prelude::*};

fn asked() -> Value {
    opcell::json!({"article": 7})
}

/// One host, whose tool says on whose behalf it is called. The plugin itself is granted nothing.
async fn host() -> Host {
    let price = tool(async |_, input: ToolInput| Ok(input.context.tenant.map_or(0, |name| name.len() as i64)));
    builder().plugin(PluginConfig::from_bytes("shop", component())).tool(price).cells(4).build().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_plugin_has_other_grants_for_each_tenant_and_none_for_a_tenant_that_is_not_known() {
    let host = host().await;
    host.set_tenant(Tenant::new("acme").grant("shop", Grant::tool("shop.price"))).await.unwrap();
    host.set_tenant(Tenant::new("other")).await.unwrap();

    let acme = host.invoke("test/run", asked()).tenant("acme").await.unwrap();
    assert_eq!(acme.data, Value::from(4));
    for denied in [host.invoke("test/run", asked()).tenant("other"), host.invoke("test/run", asked())] {
        let error = denied.await.unwrap_err();
        assert!(error.failure.reason.starts_with("tool shop.price"), "{error:?}");
        let Some(opcell::TypedReceipt::Cell(receipt)) = error.typed_receipt() else { panic!("{error:?}") };
        assert_eq!(receipt.denials.len(), 1);
    }
    let unknown = host.invoke("test/run", asked()).tenant("unknown").await.unwrap_err();
    assert_eq!(unknown.kind(), FailureKind::Host("unknown-tenant"));

    // A run on behalf of a tenant has what the tenant is granted.
    let text =
        r#"{:name "w" :description "d" :steps [{:name "s" :type :invoke :operation "test/run" :args {:article 7}}]}"#;
    let workflow = Workflow::compile("w.edn", text).unwrap();
    for (tenant, status) in [("acme", Status::Completed), ("other", Status::Failed), ("unknown", Status::Failed)] {
        let options = RunOptions { tenant: Some(tenant.into()), ..RunOptions::default() };
        let run = host.start_with(&workflow, Value::Null, options).await.unwrap();
        assert_eq!(run.outcome().await.unwrap().ended().unwrap().status, status, "{tenant}");
    }

    // New grants count from the next call on; a tenant that is removed has none.
    host.set_tenant(Tenant::new("acme")).await.unwrap();
    assert!(host.invoke("test/run", asked()).tenant("acme").await.is_err());
    assert!(host.remove_tenant("acme") && !host.remove_tenant("acme"));
    let gone = host.invoke("test/run", asked()).tenant("acme").await.unwrap_err();
    assert_eq!(gone.kind(), FailureKind::Host("unknown-tenant"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_that_cannot_be_served_is_refused_and_the_one_before_stays() {
    let host = host().await;
    host.set_tenant(Tenant::new("acme").grant("shop", Grant::tool("shop.price"))).await.unwrap();
    for (refused, why) in [
        (Tenant::new("a/b"), "is not a name of a tenant"),
        (Tenant::new("acme").grant("shopp", Grant::tool("shop.price")), "no plugin `shopp`"),
        (Tenant::new("acme").grant("shop", Grant::read("repo", "/does/not/exist")), "/does/not/exist"),
    ] {
        let error = host.set_tenant(refused).await.unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    assert!(host.invoke("test/run", asked()).tenant("acme").await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_a_tenant_are_within_the_plugins() {
    let host = host().await;
    let slow =
        LimitRequest { wall_time: Some(u64::from(u32::MAX)), argument_bytes: Some(3), ..LimitRequest::default() };
    host.set_tenant(Tenant::new("acme").grant("shop", Grant::tool("shop.price")).limits(slow)).await.unwrap();
    let error = host.invoke("test/run", asked()).tenant("acme").await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::Limit("transfer-limit"));
}

/// Answers with its name.
struct Named(&'static str);

#[async_trait]
impl Model for Named {
    async fn complete(&self, round: &ModelRound, _: Option<&dyn TextSink>) -> Result<ModelReply, Failure> {
        Ok(ModelReply::text(&round.model, self.0))
    }
}

fn asking(model: &str) -> Workflow {
    let text = format!(
        r#"{{:name "ask" :description "d" :steps [{{:name "ask" :type :session :model "{model}" :contributions [{{:type :template :text "Hello." :vars {{}}}}]}}]}}"#
    );
    Workflow::compile("ask.edn", text).unwrap()
}

async fn answer(host: &Host, model: &str, tenant: Option<&str>) -> RunOutcome {
    let options = RunOptions { tenant: tenant.map(Into::into), ..RunOptions::default() };
    let run = host.start_with(&asking(model), Value::Null, options).await.unwrap();
    run.outcome().await.unwrap().ended().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_a_tenant_ask_its_own_models() {
    let host = builder().provider("mine", Named("the host's")).build().await.unwrap();
    host.set_tenant(Tenant::new("acme").provider("mine", Named("acme's"))).await.unwrap();
    host.set_tenant(Tenant::new("all").model(Named("for all"))).await.unwrap();
    host.set_tenant(Tenant::new("other")).await.unwrap();
    for (tenant, said) in
        [(None, "the host's"), (Some("other"), "the host's"), (Some("acme"), "acme's"), (Some("all"), "for all")]
    {
        assert_eq!(answer(&host, "mine/large", tenant).await.result, Value::from(said), "{tenant:?}");
    }
    let unknown = answer(&host, "mine/large", Some("unknown")).await;
    assert_eq!((unknown.status, unknown.reason.as_deref()), (Status::Failed, Some("unknown-tenant")), "{unknown:?}");

    for (refused, why) in [
        (Tenant::new("acme").provider("nowhere", Named("n")), "no provider `nowhere`"),
        (Tenant::new("acme").model_key("mine", "k"), "the key has no use"),
        (Tenant::new("acme").model_key("openai", "  "), "is empty"),
        (Tenant::new("acme").model(Named("a")).provider("mine", Named("b")), "answers for all"),
        (Tenant::new("acme").provider("mine", Named("a")).provider("mine", Named("b")), "set twice"),
        (Tenant::new("acme").model(Named("a")).model(Named("b")), "set twice"),
        (Tenant::new("acme").setting("shop", "k", "a").setting("shop", "k", "b"), "no plugin `shop`"),
    ] {
        let error = host.set_tenant(refused).await.unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    // The tenant of before stays.
    assert_eq!(answer(&host, "mine/large", Some("acme")).await.result, Value::from("acme's"));
}

/// A provider's server, which answers each request with the credentials that came with it.
async fn provider() -> std::net::SocketAddr {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
                // The body of the request is JSON, and ends with its last brace.
                while !request.ends_with(b"}") {
                    let Ok(read @ 1..) = stream.read(&mut buffer).await else { return };
                    request.extend_from_slice(buffer.get(..read).unwrap());
                }
                let request = String::from_utf8_lossy(&request).into_owned();
                let header = |name: &str| {
                    let line = request.lines().find(|line| line.to_ascii_lowercase().starts_with(name));
                    line.map_or("none", |line| line.split_once(": ").unwrap().1).to_owned()
                };
                let said = format!("{} {}", header("authorization"), header("x-team"));
                let message = serde_json::json!({"role": "assistant", "content": said});
                let body = serde_json::json!({"choices": [{"message": message, "finish_reason": "stop"}]}).to_string();
                let head =
                    format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}", body.len());
                let _ = stream.write_all(format!("{head}\r\nConnection: close\r\n\r\n{body}").as_bytes()).await;
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_a_tenant_send_its_own_key_and_no_secret_of_the_project() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), "host-key").unwrap();
    std::fs::write(folder.path().join("team"), "host-team").unwrap();
    let text = format!(
        "[models.providers.local]\napi = \"openai-completions\"\nbase-url = \"http://{}/v1/\"\n\
         api-key = \"file:{folder}/key\"\nheaders = {{ x-team = \"file:{folder}/team\" }}\n",
        provider().await,
        folder = folder.path().display()
    );
    let project = folder.path().join("opcell.toml");
    std::fs::write(&project, text).unwrap();
    let host = builder().config(Config::load(project).unwrap()).build().await.unwrap();
    let acme = Tenant::new("acme").model_key("local", "acme-key\n");
    assert!(!format!("{acme:?}").contains("acme-key"));
    host.set_tenant(acme).await.unwrap();
    host.set_tenant(Tenant::new("other")).await.unwrap();
    for (tenant, said) in [
        (None, "Bearer host-key host-team"),
        (Some("other"), "Bearer host-key host-team"),
        (Some("acme"), "Bearer acme-key none"),
    ] {
        let end = answer(&host, "local/small", tenant).await;
        assert_eq!(end.result, Value::from(said), "{end:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_keeps_its_tenant_whatever_context_it_is_given() {
    let host = host().await;
    host.set_tenant(Tenant::new("acme").grant("shop", Grant::tool("shop.price"))).await.unwrap();
    let context = || CallContext { step: "s".into(), ..CallContext::default() };
    for call in [
        host.invoke("test/run", asked()).tenant("acme").context(context()),
        host.invoke("test/run", asked()).context(context()).tenant("acme"),
        host.invoke("test/run", asked()).context(CallContext { tenant: Some("acme".into()), ..context() }),
    ] {
        assert_eq!(call.await.unwrap().data, Value::from(4));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plugins_come_and_go_in_a_living_host() {
    let live = LiveHost::new(builder().tool(tool(async |_, _| Ok(1))).build().await.unwrap());
    assert!(live.now().invoke("test/run", asked()).await.is_err());

    live.add(shop()).await.unwrap();
    let before = live.now();
    assert!(before.invoke("test/run", asked()).await.is_ok());
    let twice = live.add(shop()).await.unwrap_err();
    assert!(matches!(twice, HostError::Duplicate(_)), "{twice}");

    live.remove("shop").await.unwrap();
    let gone = live.now().invoke("test/run", asked()).await.unwrap_err();
    assert_eq!(gone.kind(), FailureKind::Unknown);
    assert!(live.remove("shop").await.is_err());
    // What began before has what it had.
    assert!(before.invoke("test/run", asked()).await.is_ok());

    live.close(std::time::Duration::ZERO).await;
    assert_eq!(before.invoke("test/run", asked()).await.unwrap_err().kind(), FailureKind::Closing);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_a_plugin_may_write_is_not_added() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("late.wasm"), component()).unwrap();
    let writes = shop().grant(Grant::read_write("work", folder.path()));
    let host = builder().plugin(writes).tool(tool(async |_, _| Ok(1))).build().await.unwrap();
    let late = PluginConfig::new("late", folder.path().join("late.wasm"));
    let error = host.with_plugin(late).await.unwrap_err().to_string();
    assert!(error.contains("the plugin `shop` may write"), "{error}");
}
