// The Opcell SDK for JavaScript: operations and judges as functions, host capabilities as plain objects.
import { begin, settled } from "./runtime.js";
import { framesOf } from "./source-map.js";
import * as hostHandles from "opcell:javascript/handles@0.1.0";
import * as hostTools from "opcell:plugin/tools@0.1.0";
import * as hostSkills from "opcell:plugin/skills@0.1.0";
import * as hostFiles from "opcell:plugin/files@0.1.0";
import * as hostStore from "opcell:plugin/store@0.2.0";
import * as hostLog from "opcell:plugin/log@0.1.0";

/** A failure that the plugin reports on purpose; throw it from an operation or a judge. */
export class Failure extends Error {
  constructor(reason, message, details) {
    super(message);
    this.name = "Failure";
    this.reason = reason;
    this.details = details;
  }
}

/** What the host refused: `capability`, `rule` and the `remedy` that would grant it. */
export class Denied extends Failure {
  constructor(denial) {
    super("denied", `${denial.capability} is denied: ${denial.rule}`, denial);
    this.name = "Denied";
    this.denial = denial;
  }
}

const payload = (error) => (error && typeof error === "object" && "payload" in error ? error.payload : error);

// Errors of the host arrive as a thrown variant: `{ tag, val }`.
function asked(call, path = "") {
  try {
    return call();
  } catch (thrown) {
    const error = payload(thrown);
    if (error && error.tag === "denied") throw new Denied(error.val);
    if (error && error.tag === "failed" && typeof error.val === "object") {
      throw new Failure(error.val.reason, error.val.message, error.val.details === undefined ? undefined : JSON.parse(error.val.details));
    }
    if (error && error.tag in fileReasons) throw new Failure(fileReasons[error.tag], `${path}: ${error.val ?? error.tag}`);
    throw thrown;
  }
}

const fileReasons = {
  "not-found": "file-not-found",
  "already-exists": "file-already-exists",
  "not-a-file": "not-a-file",
  "not-a-directory": "not-a-directory",
  quota: "file-quota",
  failed: "file-failed",
};

const text = (error, bytes) => {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new Failure("not-text", error);
  }
};

const bytesOf = (content) => (typeof content === "string" ? new TextEncoder().encode(content) : content);

/** Tools of the host. Only what is granted is listed. */
export const tools = {
  list: () =>
    hostTools.list().map(({ name, summary, argumentsSchema }) => ({
      name,
      summary,
      arguments: JSON.parse(argumentsSchema),
    })),
  call: (name, args = {}) => JSON.parse(asked(() => hostTools.call(name, JSON.stringify(args)))),
};

/** Skills in the Agent Skills format. Only what is granted is listed. */
export const skills = {
  list: () => hostSkills.list(),
  read: (name) => asked(() => hostSkills.read(name)),
  readResource: (name, path) => asked(() => hostSkills.readResource(name, path)),
};

// Bytes that one call to the host reads or writes.
const CHUNK = 65536;

// Handles are closed as soon as they were used: the engine keeps what it is given, and a call may open only so many.
function withDirectory(directory, use) {
  try {
    return use(directory);
  } finally {
    hostHandles.closeDirectory(directory);
  }
}
function withFile(file, use) {
  try {
    return use(file);
  } finally {
    hostHandles.closeFile(file);
  }
}
const inRoot = (root, use) => withDirectory(asked(() => hostFiles.openRoot(root), root), use);

/** Files below granted roots. Paths are relative and never leave their root. */
export const files = {
  roots: () => hostFiles.roots(),
  entries: (root, path = "") =>
    inRoot(root, (top) => {
      const list = (directory) =>
        asked(() => directory.entries(), `${root}/${path}`).map(({ name, kind, size }) => ({ name, kind, size: Number(size) }));
      return path ? withDirectory(asked(() => top.openDirectory(path), `${root}/${path}`), list) : list(top);
    }),
  /** Every file below a directory, as paths from the root; `skip` names directories that are left out. */
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
  read: (root, path) =>
    inRoot(root, (top) =>
      withFile(asked(() => top.open(path), `${root}/${path}`), (file) => {
        const parts = [];
        let length = 0;
        for (;;) {
          const part = Uint8Array.from(asked(() => file.read(length, CHUNK), `${root}/${path}`));
          if (part.length === 0) break;
          parts.push(part);
          length += part.length;
        }
        const whole = new Uint8Array(length);
        let at = 0;
        for (const part of parts) {
          whole.set(part, at);
          at += part.length;
        }
        return whole;
      }),
    ),
  readText: (root, path) => text(`${path} is not UTF-8`, files.read(root, path)),
  write(root, path, content) {
    const bytes = bytesOf(content);
    inRoot(root, (top) =>
      withFile(asked(() => top.create(path), `${root}/${path}`), (file) => {
        for (let at = 0; at < bytes.length; at += CHUNK) asked(() => file.write(bytes.slice(at, at + CHUNK)), `${root}/${path}`);
      }),
    );
  },
  remove: (root, path) => inRoot(root, (top) => asked(() => top.remove(path), `${root}/${path}`)),
};

function ofStore(call) {
  try {
    return call();
  } catch (thrown) {
    const error = payload(thrown);
    if (error && error.tag === "denied") throw new Denied(error.val);
    if (error && ["invalid", "quota", "failed"].includes(error.tag)) throw new Failure(`store-${error.tag}`, error.val);
    throw thrown;
  }
}

function entryOf(entry) {
  if (!entry) return undefined;
  const value = Uint8Array.from(entry.value);
  return {
    value,
    version: entry.version,
    get text() {
      return text("the value is not UTF-8", value);
    },
  };
}

/** What the plugin keeps from one call to the next. Versions are `bigint`; values are bytes, texts are encoded. */
export const store = {
  get: (name, key) => entryOf(ofStore(() => hostStore.get(name, key))),
  getText(name, key) {
    const entry = store.get(name, key);
    return entry && text(`the value of ${key} is not UTF-8`, entry.value);
  },
  set: (name, key, value) => ofStore(() => hostStore.set(name, key, bytesOf(value))),
  /** `{ stored: version }`, or `{ conflict: entry }`; `expected` is undefined for a key without an entry. */
  compareAndSet(name, key, expected, value) {
    const swap = ofStore(() => hostStore.compareAndSet(name, key, expected, bytesOf(value)));
    return swap.tag === "stored" ? { stored: swap.val } : { conflict: entryOf(swap.val) };
  },
  /** Makes a new value of the text that is there, again if another call wrote in between. Returns what was written. */
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
  list: (name, { prefix = "", after, limit = 1000 } = {}) => ofStore(() => hostStore.list(name, prefix, after, limit)),
  delete: (name, key) => ofStore(() => hostStore.delete(name, key)),
};

/** Messages for the operator. They reach the receipt, never a model. */
export const log = {
  debug: (message) => hostLog.log("debug", String(message)),
  info: (message) => hostLog.log("info", String(message)),
  warn: (message) => hostLog.log("warn", String(message)),
  error: (message) => hostLog.log("error", String(message)),
  progress: (done, total = 0, message = "") => hostLog.progress(done, total, String(message)),
};

/** A keyword outcome: `keyword("done")` and `"done"` are different outcomes. */
export const keyword = (name) => ({ tag: "keyword", val: name });

/** A result with a summary for people, or with structured details. */
export class Success {
  constructor(data, { summary, details } = {}) {
    Object.assign(this, { data, summary, details });
  }
}

const outcome = (value) => (typeof value === "string" ? { tag: "text", val: value } : value);

// Names of Node and of browsers that are not there, with what to use.
const ABSENT = {
  process: "a plugin has no environment and no arguments of a program; what it needs comes as arguments of its operations",
  Buffer: "use Uint8Array, TextEncoder and TextDecoder, or install the package `buffer`",
  require: "write `import`, or install the package that is meant: the build bundles packages of both kinds",
  __dirname: "files that the plugin needs are granted: `files` of the SDK",
  localStorage: "`store` of the SDK keeps values from one call to the next",
  document: "a plugin has no page",
  window: "use `globalThis`",
  URL: "install a package for it, such as `whatwg-url-without-unicode`",
};

function reported(error) {
  if (error instanceof Failure) {
    return { reason: error.reason, message: error.message, details: error.details === undefined ? undefined : JSON.stringify(error.details) };
  }
  let text = error instanceof Error ? `${error.name}: ${error.message}` : `${String(error)} was thrown`;
  const name = error instanceof ReferenceError && /'?(\w+)'? is not defined/.exec(error.message)?.[1];
  if (name && name in ABSENT) text += `: ${ABSENT[name]}`;
  const frames = framesOf(error);
  hostLog.panicked([text, ...frames.map((frame) => `  ${frame}`)].join("\n"));
  return { reason: "exception", message: frames.length > 0 ? `${text} ${frames[0].replace(/^at (\S+ )?/, "")}` : text, details: undefined };
}

const near = (name, names) => {
  const common = (one, other) => [...one].filter((letter, at) => other.includes(letter) && Math.abs(other.indexOf(letter) - at) < 3).length;
  const best = names.map((other) => [common(name, other) / Math.max(name.length, other.length), other]).sort((one, other) => other[0] - one[0])[0];
  return best && best[0] > 0.6 ? `, did you mean \`${best[1]}\`?` : "";
};

// What is wrong with a description is said when the plugin is built, with its place.
function described(kind, id, about, names, run) {
  const wrong = (message) => {
    throw new TypeError(`${kind} ${JSON.stringify(id)}: ${message}`);
  };
  if (typeof id !== "string" || !/^[^\s/]+\/[^\s/]+$/.test(id)) wrong("its id is `NAMESPACE/NAME`, such as `my-plugin/greet`");
  if (about === null || typeof about !== "object") wrong(`its second argument says what it is: { ${names.join(", ")} }`);
  for (const name of Object.keys(about)) if (!names.includes(name)) wrong(`unknown key \`${name}\`${near(name, names)}; there are ${names.join(", ")}`);
  if (typeof about.summary !== "string" || about.summary.trim() === "") wrong("`summary` is missing: one sentence that says what it does");
  const isSchema = (value) => typeof value === "boolean" || (value !== null && typeof value === "object" && !Array.isArray(value));
  for (const name of ["arguments", "data"]) {
    if (names.includes(name) && !isSchema(about[name])) wrong(`\`${name}\` is missing: a JSON Schema, such as { type: "object" }`);
  }
  if (typeof run !== "function") wrong("its third argument is the function that does it");
}

const EFFECTS = ["pure", "idempotent", "once"];

/** An operation: `run` gets the arguments, checked against their schema, and where the call is. It may be async. */
export function operation(id, about, run) {
  described("operation", id, about, ["summary", "arguments", "data", "effects"], run);
  const { summary, arguments: args, data, effects = "once" } = about;
  if (!EFFECTS.includes(effects)) {
    throw new TypeError(`operation ${JSON.stringify(id)}: effects: ${JSON.stringify(effects)}: expected "pure", "idempotent" or "once"${near(String(effects), EFFECTS)}`);
  }
  return { id, summary, args, data, effects, run };
}
/** A judge: `decide` returns one of `outcomes`, or `{ outcome, rationale }`. It may be async. */
export function judge(id, about, decide) {
  described("judge", id, about, ["summary", "arguments", "outcomes"], decide);
  const { summary, arguments: args, outcomes = [] } = about;
  if (!Array.isArray(outcomes)) throw new TypeError(`judge ${JSON.stringify(id)}: \`outcomes\` is a list`);
  return { id, summary, args, outcomes, decide };
}
function find(list, id) {
  const found = list.find((one) => one.id === id);
  if (!found) throw new Failure("unknown-id", `this plugin has no ${id}`);
  return found;
}

let last;

/** What the component exports: `export const { operations, judges } = plugin({ … })`. */
export function plugin(parts = {}) {
  for (const name of Object.keys(parts)) {
    if (!["operations", "judges"].includes(name)) throw new TypeError(`plugin: unknown key \`${name}\`${near(name, ["operations", "judges"])}`);
  }
  const { operations = [], judges = [] } = parts;
  last = {
    operations: {
      describe() {
        begin();
        return operations.map((one) => ({ id: one.id, summary: one.summary, argumentsSchema: JSON.stringify(one.args), dataSchema: JSON.stringify(one.data), effects: one.effects }));
      },
      invoke(id, args, context) {
        begin();
        try {
          const result = settled(find(operations, id).run(JSON.parse(args), context), id);
          const whole = result instanceof Success ? result : new Success(result);
          return { data: JSON.stringify(whole.data ?? null), summary: whole.summary, details: whole.details === undefined ? undefined : JSON.stringify(whole.details) };
        } catch (error) {
          throw reported(error);
        }
      },
    },
    judges: {
      describe() {
        begin();
        return judges.map((one) => ({ id: one.id, summary: one.summary, argumentsSchema: JSON.stringify(one.args), outcomes: one.outcomes.map(outcome) }));
      },
      judge(id, args, context) {
        begin();
        try {
          const decided = settled(find(judges, id).decide(JSON.parse(args), context), id);
          const { outcome: chosen, rationale } = decided && decided.outcome !== undefined ? decided : { outcome: decided };
          return { outcome: outcome(chosen), rationale };
        } catch (error) {
          throw reported(error);
        }
      },
    },
  };
  return last;
}

/** What the component exports, from the exports of a plugin's main file. One that forgets one of the two has it. */
export function exported(main, file) {
  if (!last) throw new Error(`${file} describes no plugin: it ends with \`export const { operations, judges } = plugin({ operations: […] })\``);
  return { operations: main.operations ?? last.operations, judges: main.judges ?? last.judges };
}
