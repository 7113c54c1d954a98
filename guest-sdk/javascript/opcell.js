// The Opcell SDK for JavaScript: operations and judges as functions, host capabilities as plain objects.
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

// QuickJS has no TextDecoder; this throws where the bytes are not UTF-8.
const text = (error, bytes) => {
  let escaped = "";
  for (const byte of bytes) escaped += `%${byte.toString(16).padStart(2, "0")}`;
  try {
    return decodeURIComponent(escaped);
  } catch {
    throw new Failure("not-text", error);
  }
};

const bytesOf = (content) => {
  if (typeof content !== "string") return content;
  const encoded = unescape(encodeURIComponent(content));
  return Uint8Array.from(encoded, (letter) => letter.charCodeAt(0));
};

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

/** Files below granted roots. Paths are relative and never leave their root. */
export const files = {
  roots: () => hostFiles.roots(),
  entries(root, path = "") {
    let directory = asked(() => hostFiles.openRoot(root), root);
    if (path) directory = asked(() => directory.openDirectory(path), `${root}/${path}`);
    const entries = asked(() => directory.entries(), `${root}/${path}`);
    return entries.map(({ name, kind, size }) => ({ name, kind, size: Number(size) }));
  },
  read(root, path) {
    const directory = asked(() => hostFiles.openRoot(root), root);
    const file = asked(() => directory.open(path), `${root}/${path}`);
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
  },
  readText: (root, path) => text(`${path} is not UTF-8`, files.read(root, path)),
  write(root, path, content) {
    const bytes = bytesOf(content);
    const directory = asked(() => hostFiles.openRoot(root), root);
    const file = asked(() => directory.create(path), `${root}/${path}`);
    for (let at = 0; at < bytes.length; at += CHUNK) asked(() => file.write(bytes.slice(at, at + CHUNK)), `${root}/${path}`);
  },
  remove(root, path) {
    const directory = asked(() => hostFiles.openRoot(root), root);
    asked(() => directory.remove(path), `${root}/${path}`);
  },
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

function reported(error) {
  if (error instanceof Failure) {
    return { reason: error.reason, message: error.message, details: error.details === undefined ? undefined : JSON.stringify(error.details) };
  }
  const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  hostLog.panicked(error instanceof Error && error.stack ? `${text}\n${error.stack}` : text);
  return { reason: "exception", message: text, details: undefined };
}

/** An operation: `run` gets the arguments, checked against their schema, and where the call is. */
export function operation(id, { summary, arguments: args, data, effects = "once" }, run) {
  return { id, summary, args, data, effects, run };
}
/** A judge: `decide` returns one of `outcomes`, or `{ outcome, rationale }`. */
export function judge(id, { summary, arguments: args, outcomes = [] }, decide) {
  return { id, summary, args, outcomes, decide };
}
function find(list, id) {
  const found = list.find((one) => one.id === id);
  if (!found) throw new Failure("unknown-id", `this plugin has no ${id}`);
  return found;
}
/** What the component exports: `export const { operations, judges } = plugin({ … })`. */
export function plugin({ operations = [], judges = [] }) {
  return {
    operations: {
      describe: () => operations.map((one) => ({ id: one.id, summary: one.summary, argumentsSchema: JSON.stringify(one.args), dataSchema: JSON.stringify(one.data), effects: one.effects })),
      invoke(id, args, context) {
        try {
          const result = find(operations, id).run(JSON.parse(args), context);
          const whole = result instanceof Success ? result : new Success(result);
          return { data: JSON.stringify(whole.data ?? null), summary: whole.summary, details: whole.details === undefined ? undefined : JSON.stringify(whole.details) };
        } catch (error) {
          throw reported(error);
        }
      },
    },
    judges: {
      describe: () => judges.map((one) => ({ id: one.id, summary: one.summary, argumentsSchema: JSON.stringify(one.args), outcomes: one.outcomes.map(outcome) })),
      judge(id, args, context) {
        try {
          const decided = find(judges, id).decide(JSON.parse(args), context);
          const { outcome: chosen, rationale } = decided && decided.outcome !== undefined ? decided : { outcome: decided };
          return { outcome: outcome(chosen), rationale };
        } catch (error) {
          throw reported(error);
        }
      },
    },
  };
}
