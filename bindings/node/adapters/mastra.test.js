"use strict";

// The adapter for Mastra, with the library itself and a scripted model.

const assert = require("node:assert/strict");
const { test } = require("node:test");
const { Agent } = require("@mastra/core/agent");
const { operationTools } = require("opcell/mastra");
const { CALLS, OFFERED, Replies, checkRefusal, hostFor } = require("./scripted");

const usage = { inputTokens: 1, outputTokens: 1, totalTokens: 2 };

/** Returns a model of the AI SDK that calls tools, and then says "done". */
function scripted() {
  const asked = [];
  const calls = CALLS.map(([toolName, input], n) => {
    return { type: "tool-call", toolCallId: `call-${n}`, toolName, input: JSON.stringify(input) };
  });
  const model = {
    specificationVersion: "v2",
    provider: "scripted",
    modelId: "scripted",
    supportedUrls: {},
    doGenerate: async (options) => {
      asked.push(options);
      return asked.length === 1
        ? { content: calls, finishReason: "tool-calls", usage, warnings: [] }
        : { content: [{ type: "text", text: "done" }], finishReason: "stop", usage, warnings: [] };
    },
    doStream: async () => {
      throw new Error("it is asked for whole answers");
    },
  };
  return { asked, model };
}

test("operations are tools, and a refusal is an error that the model reads", async (t) => {
  const host = hostFor(t);
  const replies = new Replies();
  const tools = await operationTools(host, { operations: OFFERED, onReply: replies.onReply });
  const { asked, model } = scripted();
  const agent = new Agent({ id: "agent", name: "agent", instructions: "Go on.", model, tools });
  const { text } = await agent.generate("Go on.", { maxSteps: 3 });
  assert.equal(text, "done");
  const results = asked[1].prompt.flatMap(({ role, content }) => (role === "tool" ? content : []));
  const outputs = new Map(results.map(({ toolName, output }) => [toolName, output.value]));
  assert.deepEqual(outputs.get("echo_echo"), { text: "hello" });
  assert.equal(outputs.get("code_run").result, 1400);
  const refused = outputs.get("repo_inventory");
  checkRefusal(typeof refused === "string" ? refused : JSON.stringify(refused));
  replies.check();
  const offered = asked[0].tools.find(({ name }) => name === "code_run");
  assert.ok(offered.inputSchema.properties.source);
});
