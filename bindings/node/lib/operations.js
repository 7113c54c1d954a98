"use strict";

// Operations as tools of agents: what the adapters for other libraries share. A cell has no shell: a model reaches the
// operations that it is offered, and these reach what their plugins are granted.

/** Names of tools may have letters, digits, `_` and `-`, at most 64. */
function nameOf(id) {
  return id.replace(/[^A-Za-z0-9_-]/g, "_").slice(0, 64);
}

/** Returns the message that a model reads of a failure: a refusal with the change that would allow it. */
function messageOf(error) {
  const command = error.denial?.command;
  return command === undefined ? error.message : `${error.message} (the operator can allow it: ${command})`;
}

/** Returns operations of a host by their IDs, all of them by default: each with its name as a tool and `invoke`. */
async function chosen(host, { operations, onReply, ...options } = {}) {
  const listed = (await host.operations()).filter(({ kind }) => kind === "operation");
  const unknown = operations?.find((id) => !listed.some((operation) => operation.id === id));
  if (unknown !== undefined) throw new TypeError(`the host has no operation \`${unknown}\``);
  const found = new Map();
  for (const { id, summary, "arguments-schema": schema } of listed) {
    if (operations !== undefined && !operations.includes(id)) continue;
    const name = nameOf(id);
    if (found.has(name))
      throw new TypeError(`two operations have the name \`${name}\` as tools: choose by \`operations\``);
    const invoke = async (input, signal) => {
      const reply = await host.invoke(id, input, { ...options, signal });
      await onReply?.(reply, id);
      return reply;
    };
    found.set(name, { id, name, description: summary ?? id, schema: { properties: {}, ...schema, type: "object" }, invoke });
  }
  return [...found.values()];
}

/** Returns the data of a reply, or throws an error whose message a model can use. */
function dataOf(reply) {
  if (reply.ok) return reply.data;
  throw new Error(messageOf(reply.error), { cause: reply.error });
}

module.exports = { chosen, dataOf, messageOf };
