"use strict";

// The adapter for the Vercel AI SDK, with the library itself and a scripted model; and schemas of zod.

const assert = require("node:assert/strict");
const path = require("node:path");
const { test } = require("node:test");
const { generateText, stepCountIs } = require("ai");
const { MockLanguageModelV3 } = require("ai/test");
const { z } = require("zod");
const { Grant, Host, Plugin } = require("opcell");
const { operationTools } = require("opcell/ai-sdk");

const REPOSITORY = process.env.OPCELL_REPOSITORY;
const OPERATIONS = path.join(REPOSITORY, "example-operations/dist");
const plugin = (name, options) => new Plugin(name, path.join(OPERATIONS, `${name}.wasm`), options);

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};

/** Returns a model that calls tools, and then says "done". */
function scripted(...calls) {
  const asked = [];
  const content = calls.map(([toolName, input], n) => ({
    type: "tool-call",
    toolCallId: `call-${n}`,
    toolName,
    input: JSON.stringify(input),
  }));
  const turns = [
    { content, finishReason: { unified: "tool-calls", raw: undefined }, usage, warnings: [] },
    {
      content: [{ type: "text", text: "done" }],
      finishReason: { unified: "stop", raw: undefined },
      usage,
      warnings: [],
    },
  ];
  const model = new MockLanguageModelV3({
    doGenerate: async (options) => {
      asked.push(options);
      return turns[asked.length - 1];
    },
  });
  return { asked, model };
}

test("operations are tools, and a refusal is an error that the model reads", async (t) => {
  const host = new Host({ plugins: [plugin("echo"), plugin("repo")] });
  t.after(() => host.close());
  const replies = [];
  const tools = await operationTools(host, { onReply: (reply, id) => replies.push([id, reply.receipt.operation]) });
  const { asked, model } = scripted(["echo_echo", { text: "hello" }], ["repo_inventory", {}]);
  const { text } = await generateText({ model, tools, prompt: "Go on.", stopWhen: stepCountIs(3) });
  assert.equal(text, "done");
  const answers = asked[1].prompt.at(-1).content.map(({ output }) => output);
  assert.deepEqual(answers[0], { type: "json", value: { text: "hello" } });
  assert.equal(answers[1].type, "error-text");
  assert.match(answers[1].value, /files workspace is denied/);
  assert.match(answers[1].value, /opcell plugin grant repo files workspace=PATH/);
  assert.deepEqual(replies.toSorted(), [
    ["echo/echo", "echo/echo"],
    ["repo/inventory", "repo/inventory"],
  ]);
  const offered = asked[0].tools.find(({ name }) => name === "repo_inventory");
  assert.equal(offered.inputSchema.type, "object");
});

test("tools are chosen by the IDs of operations", async (t) => {
  const host = new Host({ plugins: [plugin("echo"), plugin("repo")] });
  t.after(() => host.close());
  assert.deepEqual(Object.keys(await operationTools(host, { operations: ["echo/echo"] })), ["echo_echo"]);
  await assert.rejects(operationTools(host, { operations: ["echo/nothing"] }), /no operation `echo\/nothing`/);
});

test("a schema of zod checks arguments and gives its defaults", async (t) => {
  const shop = new Plugin("shop", path.join(REPOSITORY, "bindings/cases/shop.wasm"), {
    grants: [Grant.tool("shop.price")],
  });
  const schema = z.object({ article: z.number().int(), count: z.number().int().default(2) });
  const host = new Host({ plugins: [shop] });
  t.after(() => host.close());
  host.tool("shop.price", { description: "Returns a price.", schema }, ({ article, count }) => article * count);
  assert.equal(await host.call("test/run", { article: 7 }), 14);
  assert.equal((await host.invoke("test/run", { article: "seven" })).error.code, "invalid-arguments");
});
