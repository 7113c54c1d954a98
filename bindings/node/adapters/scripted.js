"use strict";

// What the tests of all adapters share: a host, and the script that each model follows.

const assert = require("node:assert/strict");
const path = require("node:path");
const { Grant, Host, Plugin, tool } = require("opcell");

const OPERATIONS = path.join(process.env.OPCELL_REPOSITORY, "example-operations/dist");
const PROGRAM = 'return 2 * (await call("shop.price", { article: input.article }));';

/** The calls that the model asks for in its first round; in the second it says "done". */
const CALLS = [
  ["echo_echo", { text: "hello" }],
  ["repo_inventory", {}],
  ["code_run", { language: "javascript", source: PROGRAM, input: { article: 7 } }],
];

const OFFERED = ["echo/echo", "repo/inventory", "code/run"];

function hostFor(t) {
  const schema = { type: "object", properties: { article: { type: "integer" } }, required: ["article"] };
  const price = tool("shop.price", { description: "Returns a price.", schema }, ({ article }) => article * 100);
  const wasm = (name) => new Plugin(name, path.join(OPERATIONS, `${name}.wasm`));
  const plugins = [wasm("echo"), wasm("repo"), Plugin.code({ grants: [Grant.tool("shop.price")] })];
  const host = new Host({ plugins, tools: [price] });
  t.after(() => host.close());
  return host;
}

/** Gets every reply of an adapter. */
class Replies {
  seen = [];
  onReply = (reply, id) => this.seen.push([id, reply.receipt.operation, reply.ok]);

  check() {
    assert.deepEqual(this.seen.toSorted(), [
      ["code/run", "code/run", true],
      ["echo/echo", "echo/echo", true],
      ["repo/inventory", "repo/inventory", false],
    ]);
  }
}

function checkRefusal(text) {
  assert.match(text, /files workspace is denied/);
  assert.match(text, /opcell plugin grant repo files workspace=PATH/);
}

module.exports = { CALLS, OFFERED, Replies, checkRefusal, hostFor };
