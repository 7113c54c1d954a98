"use strict";

// Operations as tools of LangChain.js and LangGraph.js.

const { ToolMessage } = require("@langchain/core/messages");
const { DynamicStructuredTool } = require("@langchain/core/tools");
const { chosen, dataOf, messageOf } = require("./lib/operations");

function textOf(data) {
  return typeof data === "string" ? data : JSON.stringify(data);
}

/** Returns the message of a call that a model made: with the receipt, and of a failure with the status `error`. */
function messageFor(reply, name, id) {
  return new ToolMessage({
    name,
    tool_call_id: id,
    content: reply.ok ? textOf(reply.data) : messageOf(reply.error),
    status: reply.ok ? "success" : "error",
    artifact: { receipt: reply.receipt?.raw },
  });
}

/**
 * Returns the operations of a host as tools. A failure of a call that a model made is a message with the status
 * `error`, which it reads; `onReply(reply, operation)` gets every reply with its receipt.
 */
async function operationTools(host, options) {
  return (await chosen(host, options)).map(({ name, description, schema, invoke }) => {
    return new DynamicStructuredTool({
      name,
      description,
      schema,
      func: async (input, _, config) => {
        const reply = await invoke(input, config?.signal);
        const id = config?.toolCall?.id;
        return id === undefined ? textOf(dataOf(reply)) : messageFor(reply, name, id);
      },
    });
  });
}

module.exports = { operationTools };
