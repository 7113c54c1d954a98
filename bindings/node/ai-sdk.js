"use strict";

// Operations as tools of the Vercel AI SDK, versions 6 and 7.

const { dynamicTool, jsonSchema } = require("ai");
const { chosen, dataOf } = require("./lib/operations");

/**
 * Returns the operations of a host as tools, by their names. A failure is an error of the tool, which the model reads;
 * `onReply(reply, operation)` gets every reply with its receipt.
 */
async function operationTools(host, options) {
  const tools = {};
  for (const { name, description, schema, invoke } of await chosen(host, options)) {
    tools[name] = dynamicTool({
      description,
      inputSchema: jsonSchema(schema),
      execute: async (input, { abortSignal }) => dataOf(await invoke(input, abortSignal)),
    });
  }
  return tools;
}

module.exports = { operationTools };
