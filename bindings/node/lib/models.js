"use strict";

// JavaScript functions as models.

const { fail } = require("./tools");

function messageOf(data) {
  return {
    role: data.role,
    content: data.content,
    toolCalls: data["tool-calls"] ?? [],
    toolCallId: data["tool-call-id"] ?? undefined,
    isError: data["is-error"] ?? false,
  };
}

/** Performs one round with a function, which answers with a text, or with `content`, `toolCalls` and `usage`. */
async function performRound(complete, native, signal) {
  let name = "a model";
  try {
    const { model, system, messages, tools, schema, settings, run } = native.request();
    name = model;
    const round = {
      model,
      system,
      messages: messages.map(messageOf),
      tools: tools.map(({ name, description, parameters }) => ({ name, description, parameters })),
      schema: schema ?? undefined,
      settings,
      run,
      signal,
      text: (piece) => native.text(String(piece)),
    };
    const answer = await complete(round);
    native.succeed(typeof answer === "string" ? { content: answer } : answer);
  } catch (thrown) {
    fail(native, name, thrown, "model-failed");
  }
}

module.exports = { performRound };
