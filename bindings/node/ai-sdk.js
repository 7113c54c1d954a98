"use strict";

// Operations as tools of the Vercel AI SDK, version 6.

const { dynamicTool, jsonSchema } = require("ai");

/** Names of tools may have letters, digits, `_` and `-`, at most 64. */
function nameOf(id) {
  return id.replace(/[^A-Za-z0-9_-]/g, "_").slice(0, 64);
}

/** Returns the message that a model reads of a failure: a refusal with the change that would allow it. */
function messageOf(error) {
  const command = error.denial?.command;
  return command === undefined ? error.message : `${error.message} (the operator can allow it: ${command})`;
}

/**
 * Returns the operations of a host as tools, by their names. A failure is an error of the tool, which the model reads;
 * `onReply(reply, operation)` gets every reply with its receipt.
 */
async function operationTools(host, { operations, onReply, ...options } = {}) {
  const listed = (await host.operations()).filter(({ kind }) => kind === "operation");
  const unknown = operations?.find((id) => !listed.some((operation) => operation.id === id));
  if (unknown !== undefined) throw new TypeError(`the host has no operation \`${unknown}\``);
  const tools = {};
  for (const { id, summary, "arguments-schema": schema } of listed) {
    if (operations !== undefined && !operations.includes(id)) continue;
    const name = nameOf(id);
    if (Object.hasOwn(tools, name))
      throw new TypeError(`two operations have the name \`${name}\` as tools: choose by \`operations\``);
    tools[name] = dynamicTool({
      description: summary,
      inputSchema: jsonSchema(schema),
      execute: async (input, { abortSignal }) => {
        const reply = await host.invoke(id, input, { ...options, signal: abortSignal });
        await onReply?.(reply, id);
        if (reply.ok) return reply.data;
        throw new Error(messageOf(reply.error), { cause: reply.error });
      },
    });
  }
  return tools;
}

module.exports = { operationTools };
