"use strict";

// The adapter for LangChain.js, with the library itself and a scripted model.

const assert = require("node:assert/strict");
const { test } = require("node:test");
const { createAgent, fakeModel } = require("langchain");
const { AIMessage, ToolMessage } = require("@langchain/core/messages");
const { operationTools } = require("opcell/langchain");
const { CALLS, OFFERED, Replies, checkRefusal, hostFor } = require("./scripted");

test("operations are tools, and a refusal is a message that the model reads", async (t) => {
  const host = hostFor(t);
  const replies = new Replies();
  const tools = await operationTools(host, { operations: OFFERED, onReply: replies.onReply });
  const calls = CALLS.map(([name, args]) => ({ name, args, id: name }));
  const model = fakeModel().respondWithTools(calls).respond(new AIMessage("done"));
  const ended = await createAgent({ model, tools }).invoke({ messages: [{ role: "user", content: "Go on." }] });
  assert.equal(ended.messages.at(-1).content, "done");
  const answers = ended.messages.filter((message) => ToolMessage.isInstance(message));
  const [echo, repo, code] = CALLS.map(([name]) => answers.find((message) => message.tool_call_id === name));
  assert.deepEqual(JSON.parse(echo.content), { text: "hello" });
  assert.equal(echo.artifact.receipt.operation, "echo/echo");
  assert.equal(JSON.parse(code.content).result, 1400);
  assert.equal(repo.status, "error");
  checkRefusal(repo.content);
  assert.equal(repo.artifact.receipt.operation, "repo/inventory");
  replies.check();
});

test("outside of an agent a tool returns the data, and throws a failure", async (t) => {
  const [echo, repo] = await operationTools(hostFor(t), { operations: ["echo/echo", "repo/inventory"] });
  assert.deepEqual(JSON.parse(await echo.invoke({ text: "hello" })), { text: "hello" });
  await assert.rejects(repo.invoke({}), /files workspace is denied/);
});
