"use strict";

// Operations as tools of Mastra.

const { createTool } = require("@mastra/core/tools");
const { chosen, dataOf } = require("./lib/operations");

/**
 * Returns the operations of a host as tools, by their names. A failure is an error of the tool, which the model reads;
 * `onReply(reply, operation)` gets every reply with its receipt.
 */
async function operationTools(host, options) {
  const tools = {};
  for (const { name, description, schema, invoke } of await chosen(host, options)) {
    tools[name] = createTool({
      id: name,
      description,
      inputSchema: schema,
      execute: async (input, context) => dataOf(await invoke(input, context?.abortSignal)),
    });
  }
  return tools;
}

module.exports = { operationTools };
