"use strict";

// The adapter for the Vercel AI SDK, with the library itself and a scripted model.

const assert = require("node:assert/strict");
const { test } = require("node:test");
const { generateText, stepCountIs } = require("ai");
const mocks = require("ai/test");
const { operationTools } = require("opcell/ai-sdk");
const { CALLS, OFFERED, Replies, checkRefusal, hostFor } = require("./scripted");

// Version 6 has the third version of models, version 7 the fourth.
const MockLanguageModel = mocks.MockLanguageModelV4 ?? mocks.MockLanguageModelV3;

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};

/** Returns a model that calls tools, and then says "done". */
function scripted() {
  const asked = [];
  const content = CALLS.map(([toolName, input], n) => {
    return { type: "tool-call", toolCallId: `call-${n}`, toolName, input: JSON.stringify(input) };
  });
  const turn = (parts, unified) => ({ content: parts, finishReason: { unified, raw: undefined }, usage, warnings: [] });
  const turns = [turn(content, "tool-calls"), turn([{ type: "text", text: "done" }], "stop")];
  const model = new MockLanguageModel({
    doGenerate: async (options) => {
      asked.push(options);
      return turns[asked.length - 1];
    },
  });
  return { asked, model };
}

test("operations are tools, and a refusal is an error that the model reads", async (t) => {
  const host = hostFor(t);
  const replies = new Replies();
  const tools = await operationTools(host, { operations: OFFERED, onReply: replies.onReply });
  const { asked, model } = scripted();
  const { text } = await generateText({ model, tools, prompt: "Go on.", stopWhen: stepCountIs(3) });
  assert.equal(text, "done");
  const [echo, repo, code] = asked[1].prompt.at(-1).content.map(({ output }) => output);
  assert.deepEqual(echo, { type: "json", value: { text: "hello" } });
  assert.equal(code.value.result, 1400);
  assert.equal(repo.type, "error-text");
  checkRefusal(repo.value);
  replies.check();
  const offered = asked[0].tools.find(({ name }) => name === "code_run");
  assert.ok(offered.inputSchema.properties.source);
});

test("tools are chosen by the IDs of operations", async (t) => {
  const host = hostFor(t);
  assert.deepEqual(Object.keys(await operationTools(host, { operations: ["echo/echo"] })), ["echo_echo"]);
  await assert.rejects(operationTools(host, { operations: ["echo/nothing"] }), /no operation `echo\/nothing`/);
});
