"use strict";

// Tenants, and the text of models as it comes.

const assert = require("node:assert/strict");
const path = require("node:path");
const { test } = require("node:test");
const { Event, Grant, Host, Plugin, Text, Workflow } = require("opcell");

const SHOP = path.join(process.env.OPCELL_REPOSITORY, "bindings/cases/shop.wasm");

const asking = (model) =>
  Workflow.compile(
    "ask.edn",
    `{:name "ask" :description "Asks a model"
      :steps [{:name "ask" :type :session :tools [] :model "${model}"
               :contributions [{:type :template :text "Say hello."}]}]}`,
  );

test("a tenant has its own grants and models", async (t) => {
  const tenants = [];
  const host = new Host({ plugins: [new Plugin("shop", SHOP)], providers: { mine: () => "the host's" } });
  t.after(() => host.close());
  const schema = { type: "object", properties: { article: { type: "integer" } } };
  host.tool("shop.price", { description: "Returns a price.", schema }, ({ article }, { tenant }) => {
    tenants.push(tenant);
    return article;
  });
  const grants = { shop: [Grant.tool("shop.price")] };
  await host.setTenant("acme", { grants, providers: { mine: () => "acme's" } });
  await host.setTenant("all", { model: () => "for all" });
  await host.setTenant("other");
  const asked = { article: 7 };
  assert.equal(await host.call("test/run", asked, { tenant: "acme" }), 7);
  const denied = await host.invoke("test/run", asked, { tenant: "other" });
  assert.equal(denied.receipt.denials[0].capability, "tool shop.price");
  const code = async (tenant) => (await host.invoke("test/run", asked, { tenant })).error.code;
  assert.equal(await code("unknown"), "unknown-tenant");
  const said = async (tenant) => (await host.run(asking("mine/m"), null, { tenant })).result;
  assert.deepEqual(await Promise.all([undefined, "acme", "all", "other"].map(said)), [
    "the host's",
    "acme's",
    "for all",
    "the host's",
  ]);
  // What replaces it answers from now on; what is refused changes nothing.
  await assert.rejects(host.setTenant("acme", { providers: { nowhere: () => "" } }), { code: "tenant-unusable" });
  assert.equal(await said("acme"), "acme's");
  await host.setTenant("acme", { grants, providers: { mine: () => "acme's new one" } });
  assert.equal(await said("acme"), "acme's new one");
  assert.deepEqual([await host.removeTenant("acme"), await host.removeTenant("acme")], [true, false]);
  assert.equal(await code("acme"), "unknown-tenant");
  assert.deepEqual(tenants, ["acme"]);
});

test("what is not an option of a tenant is refused", async (t) => {
  const host = new Host({ plugins: [new Plugin("shop", SHOP)] });
  t.after(() => host.close());
  await assert.rejects(host.setTenant("acme", { grant: {} }), /no option `grant`/);
  await assert.rejects(host.setTenant("acme", { modelKeys: { openai: 7 } }), TypeError);
  await assert.rejects(host.setTenant("acme", { limits: { memory: "many" } }), /memory/);
  await assert.rejects(host.setTenant("a/b"), { code: "invalid-tenant-name" });
});

test("text comes as events before the answer", async (t) => {
  let goOn;
  const seenOne = new Promise((resolve) => (goOn = resolve));
  const model = async ({ text }) => {
    text("hel");
    await seenOne;
    text("lo");
    return "hello";
  };
  const host = new Host({ model });
  t.after(() => host.close());
  const run = await host.start(asking("any/m"), null, { text: true });
  const seen = [];
  for await (const update of run.events()) {
    if (update instanceof Text) {
      seen.push(update.text);
      goOn();
    } else if (update.kind === "run-finished") seen.push("end");
  }
  assert.deepEqual([seen, (await run.outcome()).result], [["hel", "lo", "end"], "hello"]);
  for await (const update of await host.start(asking("any/m"))) assert.ok(update instanceof Event);
});

test("a program runs in a cell of the plugin that is part of Opcell", async (t) => {
  const host = new Host({ plugins: [Plugin.code()] });
  t.after(() => host.close());
  const program = { language: "javascript", source: "return input.n + 1;", input: { n: 1 } };
  assert.equal((await host.call("code/run", program)).result, 2);
});
