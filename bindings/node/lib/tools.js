"use strict";

// JavaScript functions as tools: their schemas, and how they are called.

const { ToolFailure } = require("./errors");

const MESSAGE_CHARS = 1_000;

/** Describes what was thrown, which is the function's own and may be anything. */
function described(thrown) {
  try {
    const name = thrown instanceof Error ? String(thrown.name) : typeof thrown;
    const text = thrown instanceof Error ? String(thrown.message) : String(thrown);
    return `${name.slice(0, 100)}: ${text.slice(0, MESSAGE_CHARS)}`;
  } catch {
    return "an exception that cannot be described";
  }
}

/** Answers a call with a failure for what its function threw. */
function fail(call, name, thrown, code) {
  let failure = [code, `\`${name}\` threw ${described(thrown)}`, false];
  try {
    if (thrown instanceof ToolFailure)
      failure = [String(thrown.code), String(thrown.message), Boolean(thrown.retriable)];
  } catch {
    // Such a failure is one like any other.
  }
  call.fail(...failure);
}

/** Returns JSON Schema and validator of a schema: JSON Schema itself, or one of zod or another library. */
function readSchema(name, schema) {
  if (schema === undefined) return { json: { type: "object", properties: {}, additionalProperties: false } };
  if (schema === null || typeof schema !== "object") {
    throw new TypeError(`the schema of the tool \`${name}\` is not an object: give JSON Schema, or a schema of zod`);
  }
  const standard = schema["~standard"];
  const validate = standard?.validate?.bind(standard);
  if (typeof standard?.jsonSchema?.input === "function") {
    return { json: standard.jsonSchema.input({ target: "draft-2020-12" }), validate };
  }
  if (typeof schema.toJSONSchema === "function") return { json: schema.toJSONSchema({ io: "input" }), validate };
  if (standard !== undefined) {
    throw new TypeError(
      `no JSON Schema follows from the schema of the tool \`${name}\`: ` +
        "give it as JSON Schema, such as `z.toJSONSchema(schema)` of zod 4",
    );
  }
  return { json: schema };
}

/** A JavaScript function that plugins, steps and models call by a name. */
class Tool {
  #execute;
  #validate;

  constructor(name, options, execute) {
    const { description, schema, effects = "once", plugins = true, documents = true } = options ?? {};
    if (typeof name !== "string" || name === "") throw new TypeError("a tool has a name");
    if (typeof execute !== "function") throw new TypeError(`the tool \`${name}\` has no function`);
    if (typeof description !== "string" || description === "") {
      throw new TypeError(`the tool \`${name}\` has no description: a model reads it to decide`);
    }
    const { json, validate } = readSchema(name, schema);
    this.name = name;
    this.description = description;
    this.schema = json;
    this.effects = effects;
    this.plugins = plugins;
    this.documents = documents;
    this.#execute = execute;
    this.#validate = validate;
  }

  async #checked(given) {
    if (this.#validate === undefined) return given;
    const { issues, value } = await this.#validate(given);
    if (issues === undefined) return value;
    throw new ToolFailure("invalid-arguments", issues.map((issue) => issue.message).join("; "));
  }

  /** Performs one call. Whatever the function does is a failure of the call. */
  async _perform(call, signal) {
    try {
      const { caller, plugin, run, idempotencyKey, user, tenant } = call;
      const context = {
        caller,
        plugin: plugin ?? undefined,
        run,
        idempotencyKey,
        user: user ?? undefined,
        tenant: tenant ?? undefined,
        signal,
      };
      call.succeed(await this.#execute(await this.#checked(call.arguments()), context));
    } catch (thrown) {
      fail(call, this.name, thrown, "tool-failed");
    }
  }
}

/** Makes a tool of a function. */
function tool(name, options, execute) {
  return new Tool(name, options, execute);
}

module.exports = { Tool, fail, tool };
