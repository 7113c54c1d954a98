// The SDK of source plugins: the names of `guest-sdk/javascript/opcell.js`, on the host functions of source.c, so that a
// source is a source plugin here and the main file of a plugin that `opcell plugin build` bundles.
(host) => {
  "use strict";
  const { Error, TypeError, JSON, Object, Array, Uint8Array, String } = globalThis;
  const { stringify } = JSON;

  class Failure extends Error {
    constructor(reason, message, details) {
      super(message);
      this.name = "Failure";
      this.reason = reason;
      this.details = details;
    }
  }
  class Denied extends Failure {
    constructor(denial) {
      super("denied", `${denial.capability} is denied: ${denial.rule}`, denial);
      this.name = "Denied";
      this.denial = denial;
    }
  }
  class Success {
    constructor(data, { summary, details } = {}) {
      Object.assign(this, { data, summary, details });
    }
  }

  const answered = (answer) => {
    if (answer.denied !== undefined) throw new Denied({ ...answer.denied });
    if (answer.failed !== undefined) throw new Failure(answer.failed.reason, answer.failed.message, answer.failed.details);
    return answer.value;
  };
  const bytesOf = (content) => (typeof content === "string" ? host.encode(content) : content);
  const textOf = (bytes, name) => {
    const text = host.decode(bytes);
    if (text === undefined) throw new Failure("not-text", `${name} is not UTF-8`);
    return text;
  };

  const tools = {
    list: () => host.tools().map(([name, summary, schema]) => ({ name, summary, arguments: JSON.parse(schema) })),
    call(name, args = {}) {
      if (typeof name !== "string") throw new TypeError("tools.call(name, arguments): the name of a tool is a string");
      return answered(host.call(name, args));
    },
  };
  const skills = {
    list: () => host.skills().map(([name, description]) => ({ name, description })),
    read: (name) => answered(host.skill(String(name))),
    readResource: (name, path) => answered(host.resource(String(name), String(path))),
  };
  const files = {
    roots: () => host.roots().map(([name, writable]) => ({ name, writable })),
    entries: (root, path = "") =>
      answered(host.entries(String(root), String(path))).map(([name, kind, size]) => ({ name, kind, size })),
    walk(root, path = "", { skip = [], most = 10_000 } = {}) {
      const found = [];
      const pending = [path];
      while (pending.length > 0) {
        const directory = pending.pop();
        for (const { name, kind } of files.entries(root, directory)) {
          const inner = directory ? `${directory}/${name}` : name;
          if (kind === "directory" && !skip.includes(name)) pending.push(inner);
          if (kind === "file") found.push(inner);
          if (found.length + pending.length > most) throw new Failure("too-many-files", `${root}/${path} has more than ${most} files`);
        }
      }
      return found.sort();
    },
    read: (root, path) => answered(host.read(String(root), String(path))),
    readText: (root, path) => textOf(files.read(root, path), path),
    write: (root, path, content) => void answered(host.write(String(root), String(path), bytesOf(content))),
    remove: (root, path) => void answered(host.remove(String(root), String(path))),
  };
  const entryOf = (entry) =>
    entry && {
      ...entry,
      get text() {
        return textOf(entry.value, "the value");
      },
    };
  const store = {
    get: (name, key) => entryOf(answered(host.storeGet(String(name), String(key)))),
    getText(name, key) {
      const entry = store.get(name, key);
      return entry && textOf(entry.value, `the value of ${key}`);
    },
    set: (name, key, value) => answered(host.storeSet(String(name), String(key), bytesOf(value))),
    compareAndSet(name, key, expected, value) {
      const swap = answered(host.storeSwap(String(name), String(key), expected, bytesOf(value)));
      return swap.stored !== undefined ? swap : { conflict: entryOf(swap.conflict) };
    },
    update(name, key, change) {
      let seen = store.get(name, key);
      for (let attempt = 0; attempt < 100; attempt += 1) {
        const value = change(seen?.text);
        const swap = store.compareAndSet(name, key, seen?.version, value);
        if (swap.stored !== undefined) return value;
        seen = swap.conflict;
      }
      throw new Failure("store-failed", `others wrote \`${key}\` 100 times in between`);
    },
    list: (name, { prefix = "", after, limit = 1000 } = {}) =>
      answered(host.storeList(String(name), String(prefix), after === undefined ? undefined : String(after), limit)),
    delete: (name, key) => answered(host.storeDelete(String(name), String(key))),
  };
  const log = {
    debug: (message) => host.log(1, message),
    info: (message) => host.log(2, message),
    warn: (message) => host.log(3, message),
    error: (message) => host.log(4, message),
    progress: (done, total = 0, message = "") => host.progress(done, total, String(message)),
  };

  // Operations and judges

  const EFFECTS = ["pure", "idempotent", "once"];
  const keyword = (name) => ({ tag: "keyword", val: name });
  const described = (kind, id, about, names, run) => {
    const wrong = (message) => {
      throw new TypeError(`${kind} ${stringify(id)}: ${message}`);
    };
    if (typeof id !== "string" || !/^[^\s/]+\/[^\s/]+$/.test(id)) wrong("its id is `NAMESPACE/NAME`, such as `my-plugin/greet`");
    if (about === null || typeof about !== "object") wrong(`its second argument describes it: { ${names.join(", ")} }`);
    for (const name of Object.keys(about)) if (!names.includes(name)) wrong(`unknown key \`${name}\`; there are ${names.join(", ")}`);
    if (typeof about.summary !== "string" || about.summary.trim() === "") wrong("`summary` is missing: one sentence on what it does");
    for (const name of ["arguments", "data"]) {
      const schema = about[name];
      const isSchema = typeof schema === "boolean" || (schema !== null && typeof schema === "object" && !Array.isArray(schema));
      if (names.includes(name) && !isSchema) wrong(`\`${name}\` is missing: a JSON Schema, such as { type: "object" }`);
    }
    if (typeof run !== "function") wrong("its third argument is the function that does it");
  };
  const operation = (id, about, run) => {
    described("operation", id, about, ["summary", "arguments", "data", "effects"], run);
    const { summary, arguments: args, data, effects = "once" } = about;
    if (!EFFECTS.includes(effects)) {
      throw new TypeError(`operation ${stringify(id)}: effects: ${stringify(effects)}: expected "pure", "idempotent" or "once"`);
    }
    return { id, summary, args, data, effects, run };
  };
  const judge = (id, about, decide) => {
    described("judge", id, about, ["summary", "arguments", "outcomes"], decide);
    const { summary, arguments: args, outcomes = [] } = about;
    if (!Array.isArray(outcomes)) throw new TypeError(`judge ${stringify(id)}: \`outcomes\` is a list`);
    return { id, summary, args, outcomes, run: decide };
  };
  let offered;
  const plugin = (parts = {}) => {
    for (const name of Object.keys(parts)) {
      if (!["operations", "judges"].includes(name)) throw new TypeError(`plugin: unknown key \`${name}\`; there are operations, judges`);
    }
    const { operations = [], judges = [] } = parts;
    offered = { operations, judges };
    return { operations, judges };
  };

  /** An exported function as an operation, as its doc comment describes it. */
  const documented = (name, run) => {
    const described = about.functions[name];
    if (described === undefined) {
      throw new TypeError(`the exported function \`${name}\` has no doc comment: write \`/** … */\` with a summary before it, or do not export it`);
    }
    const { id, summary, args, data, effects, parameters } = described;
    return { id, summary, args, data, effects, run: (given, context) => run(...parameters.map((parameter) => given[parameter]), context) };
  };
  const outcomeOf = (value) => (value !== null && typeof value === "object" && value.tag === "keyword" ? `:${value.val}` : `${value}`);

  /** What the host reads as the description of the plugin: called once with the exports of its source. */
  const load = (exports) => {
    const functions = Object.keys(exports).filter((name) => typeof exports[name] === "function");
    const operations = [
      ...(offered?.operations ?? []),
      ...functions.map((name) => documented(name === "default" ? exports[name].name || name : name, exports[name])),
    ];
    const judges = offered?.judges ?? [];
    if (operations.length + judges.length === 0) throw new TypeError("it exports no function with a doc comment, and calls no `plugin({ operations })`");
    return {
      operations: operations.map(({ id, summary, args, data, effects, run }) => ({
        id, summary, args: stringify(args), data: stringify(data), effects: EFFECTS.indexOf(effects), run,
      })),
      judges: judges.map(({ id, summary, args, outcomes, run }) => ({
        id, summary, args: stringify(args), outcomes: outcomes.map(outcomeOf), run,
      })),
    };
  };

  const reply = async (work) => {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      const { reason, message, details } = error;
      return { reason: String(reason), message: String(message), details: details === undefined ? undefined : stringify(details) };
    }
  };
  const invoke = (run, args, context) =>
    reply(async () => {
      const result = await run(args, context);
      const { data, summary, details } = result instanceof Success ? result : { data: result };
      return {
        data: stringify(data ?? null) ?? "null",
        summary: summary === undefined ? undefined : String(summary),
        details: details === undefined ? undefined : stringify(details),
      };
    });
  const decide = (run, args, context) =>
    reply(async () => {
      const decided = await run(args, context);
      const { outcome, rationale } = decided && decided.outcome !== undefined ? decided : { outcome: decided };
      const isKeyword = outcome !== null && typeof outcome === "object" && outcome.tag === "keyword";
      return {
        outcome: String(isKeyword ? outcome.val : outcome),
        isKeyword,
        rationale: rationale === undefined ? undefined : String(rationale),
      };
    });

  // Globals that the engine lacks, as `opcell plugin build` gives them

  const TextEncoder = class TextEncoder {
    get encoding() {
      return "utf-8";
    }
    encode(text = "") {
      return host.encode(String(text));
    }
  };
  const TextDecoder = class TextDecoder {
    #fatal;
    constructor(label = "utf-8", { fatal = false } = {}) {
      if (!/^\s*utf-?8\s*$/i.test(label)) throw new RangeError(`\`${label}\`: only UTF-8 is decoded here`);
      this.#fatal = fatal;
    }
    get encoding() {
      return "utf-8";
    }
    decode(input = new Uint8Array()) {
      const bytes = ArrayBuffer.isView(input) ? new Uint8Array(input.buffer, input.byteOffset, input.byteLength) : new Uint8Array(input);
      const text = host.decode(bytes, !this.#fatal);
      if (text === undefined) throw new TypeError("the bytes are not UTF-8");
      return text;
    }
  };

  /** What the bundle says of the plugin, of which cells begin with all else. */
  let about;
  const begin = (described) => {
    about = described;
    for (const value of [TextEncoder, TextDecoder]) {
      Object.defineProperty(globalThis, value.name, { value, writable: true, configurable: true });
    }
  };

  return {
    begin,
    exports: { Denied, Failure, Success, files, judge, keyword, log, operation, plugin, skills, store, tools },
    load,
    invoke,
    decide,
  };
}
