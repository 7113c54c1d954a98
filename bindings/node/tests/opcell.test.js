"use strict";

// The package as a user has it: installed, with no Rust on the path.

const assert = require("node:assert/strict");
const { spawn, spawnSync } = require("node:child_process");
const { once } = require("node:events");
const { accessSync, constants, cpSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } = require("node:fs");
const { tmpdir } = require("node:os");
const path = require("node:path");
const { test } = require("node:test");
const v8 = require("node:v8");
const vm = require("node:vm");
const { Worker } = require("node:worker_threads");
const opcell = require("opcell");
const { Grant, Host, Plugin, ToolFailure, Workflow } = opcell;

const REPOSITORY = process.env.OPCELL_REPOSITORY;
const OPERATIONS = path.join(REPOSITORY, "example-operations/dist");
const CASES = path.join(REPOSITORY, "bindings/cases");
const PACKAGE = path.dirname(require.resolve("opcell"));

const ECHO = new Plugin("echo", path.join(OPERATIONS, "echo.wasm"));

const SHIP = `
{:name "ship" :description "Ships once a person has said so"
 :steps [{:name "note" :type :invoke :operation "echo/echo" :args {:order {:from :workflow-input :path [:order]}}}
         {:name "ask" :type :wait :signal "ship" :approval true :question "Ship it?"}
         {:name "end" :type :exit :status :success :output {:from {:step "note" :output :data} :path [:order]}}]}
`;

const STOP = '{:name "stop" :description "Fails" :steps [{:name "e" :type :exit :status :failed :output "no"}]}';

const PRICES = `
{:name "prices" :description "Asks a tool of the program"
 :steps [{:name "price" :type :invoke :operation "shop.price" :args {:article {:from :workflow-input :path [:article]}}}
         {:name "end" :type :exit :status :success :output {:from {:step "price" :output :data}}}]}
`;

const ASK = `
{:name "ask" :description "Asks a model"
 :steps [{:name "ask" :type :session :tools [] :model "mine/large"
          :contributions [{:type :template :text "Say hello."}]}]}
`;

const BUY = `
{:name "buy" :description "A model that buys"
 :steps [{:name "buy" :type :session :tools ["shop.buy"] :approve :always
          :contributions [{:type :template :text "Buy something." :vars {}}]}]}
`;

const BUYER = `
version: 1
order: any
turns:
  - when: { round: 0 }
    tool-calls:
      - { name: shop.buy, arguments: { amount: 500 } }
  - when: { round: 1 }
    text: "Bought."
`;

const ARTICLE = {
  type: "object",
  properties: { article: { type: "integer" } },
  required: ["article"],
  additionalProperties: false,
};

const ANYTHING = { description: "Does what the test says.", schema: { type: "object" } };

const ship = () => Workflow.compile("ship.edn", SHIP);
const shop = (...grants) => new Plugin("shop", readFileSync(path.join(CASES, "shop.wasm")), { grants });
const folder = () => mkdtempSync(path.join(tmpdir(), "opcell-test-"));

/** Returns a host that is closed at the end of the test. */
function opened(t, options) {
  const host = new Host(options);
  t.after(() => host.close({ graceMs: 0 }));
  return host;
}

/** Returns a host whose plugin calls this function. */
function selling(t, execute, options = ANYTHING) {
  return opened(t, { plugins: [shop(Grant.tool("shop.price"))] }).tool("shop.price", options, execute);
}

/** Awaits something that does not keep the event loop alive. */
async function awaited(promise) {
  const alive = setInterval(() => {}, 1_000);
  await promise;
  clearInterval(alive);
}

/** Runs another Node.js with a program. */
function script(text, args = [], options = {}) {
  const { stdout, stderr, status } = spawnSync(process.execPath, [...(options.flags ?? []), "-e", text, ...args], {
    encoding: "utf8",
    ...options,
  });
  return { stdout, stderr, status };
}

// Calls.

test("a pure call returns its data and has a receipt", async (t) => {
  const host = opened(t, { plugins: [ECHO] });
  assert.deepEqual(await host.call("echo/echo", { text: "hello" }), { text: "hello" });
  const reply = await host.invoke("echo/echo", { n: [1, null, { deep: true }] });
  assert.ok(reply.ok);
  assert.deepEqual(reply.result(), { n: [1, null, { deep: true }] });
  assert.deepEqual([reply.receipt.plugin, reply.receipt.operation], ["echo", "echo/echo"]);
  assert.ok(reply.receipt.peakMemory > 0);
  assert.deepEqual(reply.receipt.denials, []);
});

test("operations are listed with their schemas", async (t) => {
  const [echo] = await opened(t, { plugins: [ECHO] }).operations();
  assert.deepEqual([echo.id, echo.effects], ["echo/echo", "pure"]);
});

test("a denied call says what would allow it, and is granted then", async (t) => {
  const files = folder();
  writeFileSync(path.join(files, "a.txt"), "one\n");
  const component = path.join(OPERATIONS, "repo.wasm");
  const host = opened(t, { plugins: [new Plugin("repo", component)] });
  const reply = await host.invoke("repo/inventory");
  const [denial] = reply.receipt.denials;
  assert.equal(denial.capability, "files workspace");
  assert.equal(denial.remedy.kind, "grant");
  assert.deepEqual(reply.denial.remedy, denial.remedy);
  assert.equal(reply.denial.command, "opcell plugin grant repo files workspace=PATH");
  await assert.rejects(host.call("repo/inventory"), (error) => {
    assert.ok(error instanceof opcell.Denied);
    assert.deepEqual(error.denial, reply.denial);
    return error.receipt !== undefined;
  });
  const plugins = [new Plugin("repo", component, { grants: [Grant.read(denial.remedy.name, files)] })];
  assert.equal((await opened(t, { plugins }).call("repo/inventory")).files, 1);
});

test("errors are of the kind of the failure", async (t) => {
  const host = opened(t, { plugins: [ECHO] });
  await assert.rejects(host.call("echo/nothing"), (error) => {
    assert.equal(error.name, "UnknownOperation");
    return error instanceof opcell.UnknownOperation && error instanceof opcell.OpcellError && error.kind === "unknown";
  });
  await assert.rejects(host.call("echo/echo", ["no object"]), opcell.InvalidArguments);
});

test("what is not JSON is refused before anything runs", async (t) => {
  const host = opened(t, { plugins: [ECHO] });
  const cycle = {};
  cycle.self = cycle;
  let wide = ["x".repeat(1_000)];
  for (let n = 0; n < 30; n += 1) wide = [wide, wide];
  const throwing = {
    get a() {
      throw new Error("no");
    },
  };
  const trap = new Proxy(
    {},
    {
      ownKeys() {
        throw new Error("no");
      },
    },
  );
  class Point {}
  const wrong = [
    { a: new Map() },
    { a: new Point() },
    { a: NaN },
    { a: Infinity },
    { a: 1n << 64n },
    { a: "\ud800" },
    cycle,
    { a: wide },
    throwing,
    trap,
    { a: () => 1 },
    { a: Symbol("a") },
    { a: new Array(2 ** 32 - 1) },
    {
      a: {
        toJSON() {
          throw new Error("no");
        },
        __proto__: { b: 1 },
      },
    },
  ];
  for (const args of wrong) await assert.rejects(host.call("echo/echo", args), TypeError);
  await assert.rejects(host.call("echo/echo", { a: new Point() }), /a `Point` is not JSON/);
  assert.deepEqual(await host.call("echo/echo", { a: 1 }), { a: 1 });
});

test("what JSON has arrives as it is", async (t) => {
  const host = opened(t, { plugins: [ECHO] });
  const kept = {
    "": "",
    "a\u0000b": "größer \u0000 \u{1f600} \ufffd",
    big: [2n ** 63n - 1n, 2n ** 64n - 1n, -(2n ** 63n)],
    exact: [Number.MAX_SAFE_INTEGER, -Number.MAX_SAFE_INTEGER, 0.1, 1e300, 5e-324],
    7: { nested: [[], {}] },
  };
  assert.deepEqual(await host.call("echo/echo", kept), kept);
  const date = new Date(0);
  const read = await host.call("echo/echo", {
    gone: undefined,
    holes: [undefined],
    date,
    realm: vm.runInNewContext("({a: [1]})"),
  });
  assert.deepEqual(read, { holes: [null], date: date.toJSON(), realm: { a: [1] } });
  const named = await host.call("echo/echo", JSON.parse('{"__proto__": {"polluted": true}}'));
  assert.deepEqual(Object.keys(named), ["__proto__"]);
  assert.equal(Object.getPrototypeOf(named), Object.prototype);
  assert.equal(named.polluted, undefined);
});

test("a host that is closed accepts no calls", async () => {
  const host = await new Host({ plugins: [ECHO] }).open();
  await host.close();
  await host.close();
  await assert.rejects(host.call("echo/echo", {}), opcell.Closing);
});

test("settings that are wrong are named", async () => {
  await assert.rejects(new Host({ plugins: [ECHO], limits: { memory: "many" } }).open(), /memory/);
  await assert.rejects(new Host({ plugins: [ECHO, ECHO] }).open(), { code: "duplicate" });
  await assert.rejects(new Host("no-such-project.toml").open(), (error) => {
    assert.ok(error instanceof opcell.RejectedError);
    return error.findings[0].code === "project-file-unreadable";
  });
  assert.throws(() => new Host({ plugin: [] }), /no option `plugin`/);
  await assert.rejects(new Host({ plugins: [ECHO], cells: "many" }).open(), TypeError);
});

test("plugins are compiled in a child by the program in the package", async () => {
  accessSync(path.join(PACKAGE, "native/opcell-compile"), constants.X_OK);
  const away = folder();
  const { status, stderr } = script(
    `const load = require("opcell/lib/load.js");`.replace("opcell/lib/load.js", path.join(PACKAGE, "lib/load.js")) +
      `load.COMPILER = "/nowhere"; const { Host, Plugin } = require("opcell");
       new Host({ plugins: [new Plugin("echo", process.argv[1])] }).open();`,
    [ECHO.component],
    { env: { ...process.env, HOME: away, PATH: away } },
  );
  assert.notEqual(status, 0);
  assert.match(stderr, /opcell-compile/);
});

test("the loader says what is missing", () => {
  const { obstacle } = require(path.join(PACKAGE, "lib/load.js"));
  assert.equal(obstacle("linux", "x64", "2.36", "20.0.0", true), null);
  assert.match(obstacle("darwin", "arm64", undefined, "20.0.0", false), /darwin on arm64/);
  assert.match(obstacle("linux", "x64", undefined, "20.0.0", true), /musl/);
  assert.match(obstacle("linux", "x64", "2.36", "18.20.0", true), /18\.20\.0/);
  assert.match(obstacle("linux", "x64", "2.36", "20.0.0", false), /is missing/);
});

test("calls are in flight together", async (t) => {
  const host = opened(t, { plugins: [ECHO] });
  const replies = await Promise.all(Array.from({ length: 64 }, (_, n) => host.call("echo/echo", { n })));
  assert.deepEqual(
    replies.map(({ n }) => n),
    Array.from({ length: 64 }, (_, n) => n),
  );
});

test("an abort cancels a call", async (t) => {
  const controller = new AbortController();
  let stopped;
  const seen = new Promise((resolve) => {
    stopped = resolve;
  });
  const host = selling(t, (_, { signal }) => {
    signal.addEventListener("abort", stopped);
    controller.abort(new Error("enough"));
    return new Promise(() => {});
  });
  await assert.rejects(host.call("test/run", { article: 7 }, { signal: controller.signal }), /enough/);
  await awaited(seen);
  await assert.rejects(host.call("test/run", { article: 7 }, { signal: AbortSignal.abort() }), { name: "AbortError" });
});

// Tools.

test("a function is a tool of plugins and of documents", async (t) => {
  const seen = [];
  const host = selling(
    t,
    ({ article }, { caller, plugin, user }) => {
      seen.push([caller, plugin, user]);
      return article * 100;
    },
    { description: "Returns the price of an article in cents.", schema: ARTICLE },
  );
  assert.equal(await host.call("test/run", { article: 7 }, { user: "ann" }), 700);
  const outcome = await host.run(Workflow.compile("prices.edn", PRICES), { article: 3 });
  assert.deepEqual([outcome.status, outcome.result], ["completed", 300]);
  assert.deepEqual(seen, [
    ["plugin", "shop", "ann"],
    ["step", undefined, undefined],
  ]);
  const reply = await host.invoke("test/run", { article: "seven" });
  assert.equal(reply.error.code, "invalid-arguments");
  assert.equal(seen.length, 2);
});

test("without the grant the function is not called", async (t) => {
  const host = opened(t, { plugins: [shop()] }).tool("shop.price", ANYTHING, () => assert.fail("it was called"));
  const reply = await host.invoke("test/run", { article: 7 });
  assert.equal(reply.receipt.denials[0].capability, "tool shop.price");
});

test("a schema of a library gives JSON Schema and checks", async (t) => {
  const schema = {
    "~standard": {
      version: 1,
      vendor: "test",
      validate: ({ article }) =>
        article < 9 ? { value: { article: article + 1 } } : { issues: [{ message: "too many" }] },
      jsonSchema: { input: () => ARTICLE },
    },
  };
  const host = selling(t, ({ article }) => article, { description: "Counts.", schema });
  assert.equal(await host.call("test/run", { article: 7 }), 8);
  assert.equal((await host.invoke("test/run", { article: 9 })).error.code, "invalid-arguments");
  const bare = { "~standard": { validate() {} } };
  assert.throws(() => opcell.tool("a", { description: "A.", schema: bare }, () => 1), /z\.toJSONSchema/);
  const zod = { toJSONSchema: () => ARTICLE };
  assert.deepEqual(opcell.tool("a", { description: "A.", schema: zod }, () => 1).schema, ARTICLE);
});

test("whatever a function does is a failure with a receipt", async (t) => {
  const recursing = (n) => recursing(n + 1) + 1;
  const cyclic = {};
  cyclic.self = cyclic;
  const raising = (error) => {
    throw error;
  };
  let huge = ["x".repeat(1 << 16)];
  for (let n = 0; n < 12; n += 1) huge = [huge, huge];
  const hostile = {
    throws: [() => raising(new Error("x".repeat(1e6))), "tool-failed"],
    rejects: [() => Promise.reject(new Error("no")), "tool-failed"],
    "throws nothing": [() => raising(undefined), "tool-failed"],
    "throws what has no text": [
      () =>
        raising({
          toString() {
            throw new Error("no text");
          },
        }),
      "tool-failed",
    ],
    "throws a proxy": [
      () =>
        raising(
          new Proxy(
            {},
            {
              get() {
                throw new Error("no");
              },
              getPrototypeOf() {
                throw new Error("no");
              },
            },
          ),
        ),
      "tool-failed",
    ],
    "throws a failure without a text": [
      () =>
        raising(
          Object.assign(new ToolFailure("a", "b"), {
            code: {
              toString() {
                throw new Error("no");
              },
            },
          }),
        ),
      "tool-failed",
    ],
    recurses: [() => recursing(0), "tool-failed"],
    "has a then that throws": [
      () => ({
        then() {
          throw new Error("no");
        },
      }),
      "tool-failed",
    ],
    "returns a getter that throws": [
      () => ({
        get a() {
          throw new Error("no");
        },
      }),
      "malformed-result",
    ],
    "returns a getter without an end": [
      () => ({
        get a() {
          return hostile["returns a getter without an end"][0]();
        },
      }),
      "malformed-result",
    ],
    "returns a cycle": [() => cyclic, "malformed-result"],
    "returns something huge": [() => huge, "malformed-result"],
    "returns a function": [() => () => 1, "malformed-result"],
    "returns a class": [() => new (class Secret {})(), "malformed-result"],
    "returns what is not a number": [() => Infinity, "malformed-result"],
    fails: [() => raising(new ToolFailure("no-such-article", "no article 7")), "no-such-article"],
  };
  let does;
  const host = selling(t, () => does());
  for (const [name, [execute, code]] of Object.entries(hostile)) {
    does = execute;
    const reply = await host.invoke("test/run", { case: name });
    assert.equal(reply.ok, false, name);
    // The plugin passes the failure of the tool on as its own.
    assert.equal(reply.error.code, code, name);
    assert.equal(reply.receipt.operation, "test/run", name);
    assert.ok(reply.error.message.length < 5_000, name);
  }
  does = () => 1;
  assert.equal(await host.call("test/run", { article: 7 }), 1);
});

test("a function that never answers ends by the time of the call", async (t) => {
  let aborted;
  const seen = new Promise((resolve) => {
    aborted = resolve;
  });
  const host = selling(t, (_, { signal }) => {
    signal.addEventListener("abort", aborted);
    return new Promise(() => {});
  });
  // No one else refers to such a call: it is not collected.
  v8.setFlagsFromString("--expose-gc");
  const collecting = setInterval(vm.runInNewContext("gc"), 100);
  const reply = await host.invoke("test/run", { article: 7 }, { timeoutMs: 3_000 });
  clearInterval(collecting);
  assert.ok(reply.error instanceof opcell.CallTimeout, String(reply.error));
  assert.equal(reply.receipt.operation, "test/run");
  await awaited(seen);
});

test("tools come before the first use, with name, description and function", async (t) => {
  const host = await opened(t, { plugins: [ECHO] }).open();
  assert.throws(() => host.tool("late", ANYTHING, () => 1), /built already/);
  assert.throws(() => opcell.tool("a", {}, () => 1), /no description/);
  assert.throws(() => opcell.tool("a", ANYTHING), /no function/);
  assert.throws(() => new Host({ tools: [() => 1] }), /`tools` are made by/);
});

// Models.

test("a function is a model, whose text is shown as it comes", async (t) => {
  const rounds = [];
  const mine = async (round) => {
    rounds.push(round);
    round.text("hel");
    return { content: "hello", usage: { inputTokens: 3, outputTokens: 1 } };
  };
  const host = opened(t, { providers: { mine } });
  const outcome = await host.run(Workflow.compile("ask.edn", ASK));
  assert.deepEqual([outcome.status, outcome.result], ["completed", "hello"]);
  assert.equal(rounds.length, 1);
  assert.match(rounds[0].messages.at(-1).content, /Say hello/);
  assert.equal(outcome.raw.used.tokens, 4);
});

test("whatever a model does is a failure of its round", async (t) => {
  const { ModelFailure } = opcell;
  assert.ok(ModelFailure);
  for (const [complete, reason] of [
    [
      () => {
        throw new Error("no");
      },
      "model-failed",
    ],
    [
      () => {
        throw new ToolFailure("overloaded", "later");
      },
      "overloaded",
    ],
    [() => ({ content: 7 }), "malformed-result"],
    [() => null, undefined],
  ]) {
    const outcome = await opened(t, { model: complete }).run(Workflow.compile("ask.edn", ASK));
    if (reason === undefined) assert.ok(outcome.status);
    else assert.deepEqual([outcome.status, outcome.reason], ["failed", reason]);
  }
});

// Runs.

test("a run is followed and approved", async (t) => {
  const host = opened(t, { plugins: [ECHO] });
  const run = await host.start(ship(), { order: 17 });
  const kinds = [];
  for await (const update of run.events()) {
    if (update.type === "suspended") {
      assert.equal(update.questions[0].text, "Ship it?");
      await run.approve("ship", { by: "ann" });
    } else {
      kinds.push(update.kind);
    }
  }
  const outcome = await run.outcome();
  assert.deepEqual([outcome.status, outcome.result], ["completed", 17]);
  assert.deepEqual([kinds[0], kinds.at(-1)], ["run-started", "run-finished"]);
});

test("a run waits for its approval and completes", async (t) => {
  const host = opened(t, { plugins: [ECHO], journal: path.join(folder(), "runs.db") });
  let outcome = await host.run(ship(), { order: 17 });
  assert.ok(outcome.suspended);
  const [question] = outcome.questions;
  assert.deepEqual([question.kind, question.name, question.text], ["signal", "ship", "Ship it?"]);
  await (await host.runById(outcome.run)).approve(question.id, { by: "ann", why: "paid" });
  outcome = await (await host.resume(outcome.run)).outcome();
  assert.deepEqual([outcome.status, outcome.result], ["completed", 17]);
  const history = await (await host.runById(outcome.run)).history();
  assert.ok(history.some((event) => event.receipt));
  await assert.rejects((await host.runById(outcome.run)).approve("ship"), opcell.RunError);
});

test("the arguments of a model's call are changed", async (t) => {
  const project = path.join(folder(), "opcell.toml");
  writeFileSync(project, '[sessions]\nscript = "script.yaml"\ncontext-files = "none"\n');
  writeFileSync(path.join(path.dirname(project), "script.yaml"), BUYER);
  const bought = [];
  const schema = { type: "object", properties: { amount: { type: "integer" } }, required: ["amount"] };
  const host = opened(t, { project }).tool("shop.buy", { description: "Buys something.", schema }, ({ amount }) => {
    bought.push(amount);
    return "bought";
  });
  let outcome = await host.run(Workflow.compile("buy.edn", BUY));
  const [question] = outcome.questions;
  assert.deepEqual([question.kind, question.tool, question.arguments], ["call", "shop.buy", { amount: 500 }]);
  const run = await host.runById(outcome.run);
  for (const unfit of [{ arguments: { amount: "20" } }, { values: {} }, { why: "less" }]) {
    await assert.rejects(run.approve(question.id, unfit), { code: "answer-not-taken" });
  }
  await assert.rejects(run.approve(question.id, { arguments: null }), TypeError);
  await run.approve(question.id, { by: "ann", arguments: { amount: 20 } });
  outcome = await (await host.resume(outcome.run)).outcome();
  assert.deepEqual([outcome.status, bought], ["completed", [20]]);
});

test("an effect that is not in doubt is not settled", async (t) => {
  const host = opened(t, { plugins: [ECHO] });
  const run = await host.runById((await host.run(ship(), { order: 17 })).run);
  await assert.rejects(run.settle(1, "retry", { by: "ann" }), { code: "not-asked" });
  await assert.rejects(async () => run.settle(1, "redo"), /`redo`/);
  await assert.rejects(async () => run.settle(1.5, "retry"), /1\.5/);
});

test("an abort ends the waiting for a run, which continues", async (t) => {
  const host = opened(t, { plugins: [ECHO] });
  const run = await host.start(ship(), { order: 17 });
  const controller = new AbortController();
  const waiting = run.outcome({ signal: controller.signal });
  controller.abort();
  await assert.rejects(waiting, { name: "AbortError" });
  for await (const update of run) {
    if (update.type === "suspended") await run.approve(update.questions[0].id);
  }
  assert.equal((await run.outcome()).status, "completed");
});

test("a run that fails says why, and one that is cancelled ends", async (t) => {
  const host = opened(t, { plugins: [ECHO] });
  const failed = await host.run(Workflow.compile("stop.edn", STOP));
  assert.deepEqual([failed.status, failed.step], ["failed", "e"]);
  const run = await host.start(ship(), { order: 1 });
  await run.cancel("no need", { by: "ann" });
  assert.equal((await run.outcome()).status, "cancelled");
});

test("a document that is wrong says where", async (t) => {
  assert.throws(
    () => Workflow.compile("w.edn", '{:name "w" :steps [{:name "a" :type :nothing}]}'),
    (error) => {
      return error instanceof opcell.RejectedError && error.findings.length > 0;
    },
  );
  const host = opened(t, {});
  await assert.rejects(host.run(ship(), { order: 1 }), { name: "RejectedError", code: "unknown-operation" });
});

test("a run of a process that was killed is resumed and approved", async (t) => {
  const journal = path.join(folder(), "runs.db");
  const program = `
    const { Host, Plugin, Workflow } = require("opcell");
    const [echo, journal, document] = process.argv.slice(1);
    (async () => {
      const host = new Host({ plugins: [new Plugin("echo", echo)], journal });
      const run = await host.start(Workflow.compile("ship.edn", document), { order: 17 });
      for await (const update of run.events()) if (update.type === "suspended") console.log(run.id);
    })();`;
  const killed = spawn(process.execPath, ["-e", program, ECHO.component, journal, SHIP], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [chunk] = await once(killed.stdout, "data");
  killed.kill("SIGKILL");
  await once(killed, "exit");
  const id = String(chunk).trim();
  const host = opened(t, { plugins: [ECHO], journal });
  const resumed = await host.resumeAll({ detach: false });
  assert.deepEqual([...resumed.keys()], [id]);
  const run = resumed.get(id);
  await run.approve("ship", { by: "ann" });
  const outcome = await run.outcome();
  assert.deepEqual([outcome.run, outcome.status, outcome.result], [id, "completed", 17]);
});

// Processes and threads.

test("a host that is idle does not keep the process alive, and a call that is awaited does", () => {
  const ended = script(
    `const { Host, Plugin } = require("opcell");
     const host = new Host({ plugins: [new Plugin("echo", process.argv[1])] });
     host.call("echo/echo", { n: 1 }).then(({ n }) => console.log(n));`,
    [ECHO.component],
  );
  assert.deepEqual([ended.stdout, ended.status], ["1\n", 0], ended.stderr);
});

test("a process that exits stops what is in flight", () => {
  const ended = script(
    `const { Grant, Host, Plugin } = require("opcell");
     const host = new Host({ plugins: [new Plugin("shop", process.argv[1], { grants: [Grant.tool("shop.price")] })] });
     host.tool("shop.price", { description: "Exits.", schema: { type: "object" } }, () => {
       console.log("exits");
       process.exit(3);
     });
     host.call("test/run", { article: 7 });`,
    [path.join(CASES, "shop.wasm")],
  );
  assert.deepEqual([ended.stdout, ended.status], ["exits\n", 3], ended.stderr);
});

test("worker threads have hosts of their own, and may be stopped in the middle of a call", async (t) => {
  const program = `
    const { parentPort, workerData } = require("node:worker_threads");
    const { Grant, Host, Plugin } = require("opcell");
    const host = new Host({ plugins: [new Plugin("shop", workerData, { grants: [Grant.tool("shop.price")] })] });
    host.tool("shop.price", { description: "Waits.", schema: { type: "object" } }, ({ waits }) => {
      if (!waits) return 7;
      parentPort.postMessage("waits");
      return new Promise(() => {});
    });
    host.call("test/run", { waits: false }).then((price) => {
      parentPort.postMessage(price);
      return host.call("test/run", { waits: true });
    });`;
  const start = () => new Worker(program, { eval: true, workerData: path.join(CASES, "shop.wasm") });
  const workers = [start(), start()];
  await Promise.all(
    workers.map(async (worker) => {
      const said = [];
      await new Promise((resolve, reject) => {
        worker.on("error", reject);
        worker.on("message", (message) => {
          said.push(message);
          if (message === "waits") resolve();
        });
      });
      assert.deepEqual(said, [7, "waits"]);
      await worker.terminate();
    }),
  );
  assert.deepEqual(await opened(t, { plugins: [ECHO] }).call("echo/echo", { n: 1 }), { n: 1 });
});

test("memory is flat over many calls", () => {
  const calls = Number(process.env.OPCELL_CALLS ?? 20_000);
  const ended = script(
    `const { Host, Plugin } = require("opcell");
     const calls = Number(process.argv[2]);
     (async () => {
       const host = new Host({ plugins: [new Plugin("echo", process.argv[1])] });
       const call = (n) => n % 2 ? host.call("echo/echo", { n }) : host.invoke("echo/echo", { n });
       const batch = async (count) => {
         for (let done = 0; done < count; done += 100) {
           await Promise.all(Array.from({ length: 100 }, (_, n) => call(n)));
         }
         // Finalizers of native objects run after the collection.
         for (let n = 0; n < 3; n += 1) { gc(); await new Promise((resolve) => setImmediate(resolve)); }
         return process.memoryUsage();
       };
       const before = await batch(calls / 4);
       const after = await batch(calls * 3 / 4);
       console.log(JSON.stringify({ heap: after.heapUsed - before.heapUsed, rss: after.rss - before.rss }));
       await host.close();
     })();`,
    [ECHO.component, String(calls)],
    { flags: ["--expose-gc"] },
  );
  assert.equal(ended.status, 0, ended.stderr);
  const grown = JSON.parse(ended.stdout);
  assert.ok(grown.heap < 4e6 && grown.rss < 48e6, ended.stdout);
});

// The guide.

test("the page on Node.js works as it is written", () => {
  const page = readFileSync(path.join(REPOSITORY, "docs/node.md"), "utf8");
  const pieces = [...page.matchAll(/```js\n(.*?)```/gs)].map(([, piece]) => piece);
  assert.ok(pieces.length >= 5);
  // In the project, so that the package is found from it.
  const home = mkdtempSync(path.join(process.cwd(), "page-"));
  cpSync(OPERATIONS, path.join(home, "plugins"), { recursive: true });
  cpSync(path.join(CASES, "shop.wasm"), path.join(home, "plugins/shop.wasm"));
  mkdirSync(path.join(home, "notes"));
  writeFileSync(path.join(home, "notes/a.md"), "# One\n");
  writeFileSync(path.join(home, "opcell.toml"), '[plugins.echo]\npath = "plugins/echo.wasm"\ndev = true\n');
  writeFileSync(path.join(home, "page.mjs"), pieces.join("\n"));
  const ended = spawnSync(process.execPath, ["page.mjs"], { cwd: home, encoding: "utf8" });
  assert.equal(ended.status, 0, ended.stderr);
  const shown = [...page.matchAll(/```text prints\n(.*?)```/gs)].map(([, text]) => text).join("");
  assert.equal(ended.stdout, shown);
});
