// The globals that JavaScript has elsewhere, on what the host serves: randomness, clocks, timers, promises, the console.
//
// A plugin is loaded once, when it is built, and every call continues from there. What the host gives belongs to a
// call: until the first one begins, nothing of it may become part of the component.
import { framesOf } from "./source-map.js";
import * as hostLog from "opcell:plugin/log@0.1.0";
import * as hostRandom from "wasi:random/random@0.2.0";
import * as hostClock from "wasi:clocks/monotonic-clock@0.2.0";

/** Whether a call is in progress; before that, the plugin is being built. */
let live = false;
/** Lines that the console was given while the plugin was loaded. */
const early = [];
const MAX_EARLY = 100;

/** Begins a call: from here on, the host's randomness, clocks and log are there. */
export function begin() {
  if (live) return;
  live = true;
  for (const [level, text] of early) hostLog.log(level, text);
}

const duringLoad = (what) =>
  new Error(`${what} was used while the plugin was loaded: its result would be the same in every call; use it inside of an operation`);

// Promises. The engine runs no jobs of its own in a call, so that these have their own queue, which `settled` empties.
// The build rewrites `async` and `await` to functions that use the global `Promise`.

const jobs = [];
const later = (job) => void jobs.push(job);

function drain() {
  // Not `shift`, which moves all that follow.
  for (let at = 0; at < jobs.length; at += 1) {
    const job = jobs[at];
    jobs[at] = undefined;
    job();
    if (at > 4096) {
      jobs.splice(0, at + 1);
      at = -1;
    }
  }
  jobs.length = 0;
}

const NativePromise = globalThis.Promise;
const unhandled = new Set();

class OwnPromise {
  #state = "pending";
  #value;
  #reactions = [];

  constructor(executor) {
    if (typeof executor !== "function") throw new TypeError(`Promise resolver ${String(executor)} is not a function`);
    const { resolve, reject } = this.#functions();
    try {
      executor(resolve, reject);
    } catch (error) {
      reject(error);
    }
  }

  #functions() {
    let done = false;
    const once = (act) => (value) => {
      if (done) return;
      done = true;
      act(value);
    };
    return { resolve: once((value) => this.#resolve(value)), reject: once((error) => this.#settle("rejected", error)) };
  }

  #resolve(value) {
    if (value === this) return this.#settle("rejected", new TypeError("a promise cannot be resolved with itself"));
    if (value === null || (typeof value !== "object" && typeof value !== "function")) return this.#settle("fulfilled", value);
    let then;
    try {
      then = value.then;
    } catch (error) {
      return this.#settle("rejected", error);
    }
    if (typeof then !== "function") return this.#settle("fulfilled", value);
    later(() => {
      const { resolve, reject } = this.#functions();
      try {
        then.call(value, resolve, reject);
      } catch (error) {
        reject(error);
      }
    });
  }

  #settle(state, value) {
    if (this.#state !== "pending") return;
    this.#state = state;
    this.#value = value;
    if (state === "rejected" && this.#reactions.length === 0) unhandled.add(this);
    for (const reaction of this.#reactions) later(reaction);
    this.#reactions = [];
  }

  then(onFulfilled, onRejected) {
    const Kind = typeof this.constructor === "function" ? this.constructor : OwnPromise;
    let resolve, reject;
    const next = new Kind((yes, no) => {
      resolve = yes;
      reject = no;
    });
    const reaction = () => {
      const rejected = this.#state === "rejected";
      const handler = rejected ? onRejected : onFulfilled;
      if (typeof handler !== "function") return rejected ? reject(this.#value) : resolve(this.#value);
      try {
        resolve(handler(this.#value));
      } catch (error) {
        reject(error);
      }
    };
    unhandled.delete(this);
    if (this.#state === "pending") this.#reactions.push(reaction);
    else later(reaction);
    return next;
  }

  catch(onRejected) {
    return this.then(undefined, onRejected);
  }

  finally(act) {
    if (typeof act !== "function") return this.then(act, act);
    const Kind = this.constructor;
    return this.then(
      (value) => Kind.resolve(act()).then(() => value),
      (error) => Kind.resolve(act()).then(() => { throw error; }),
    );
  }

  get [Symbol.toStringTag]() {
    return "Promise";
  }

  /** `[state, value]`: for the end of a call. */
  static stateOf(promise) {
    unhandled.delete(promise);
    return [promise.#state, promise.#value];
  }

  static get [Symbol.species]() {
    return this;
  }

  static resolve(value) {
    return value instanceof OwnPromise && value.constructor === this ? value : new this((resolve) => resolve(value));
  }

  static reject(error) {
    return new this((_, reject) => reject(error));
  }

  static withResolvers() {
    let resolve, reject;
    const promise = new this((yes, no) => {
      resolve = yes;
      reject = no;
    });
    return { promise, resolve, reject };
  }

  static try(run, ...args) {
    return new this((resolve) => resolve(run(...args)));
  }

  static all(list) {
    return this.#each(list, (values, at, resolve, reject) => [(value) => resolve((values[at] = value)), reject]);
  }

  static allSettled(list) {
    return this.#each(list, (values, at, resolve) => [
      (value) => resolve((values[at] = { status: "fulfilled", value })),
      (reason) => resolve((values[at] = { status: "rejected", reason })),
    ]);
  }

  static #each(list, reactions) {
    return new this((resolve, reject) => {
      const values = [];
      let left = 1;
      const one = () => {
        left -= 1;
        if (left === 0) resolve(values);
      };
      let at = 0;
      for (const item of list) {
        left += 1;
        values.push(undefined);
        this.resolve(item).then(...reactions(values, at, one, reject));
        at += 1;
      }
      one();
    });
  }

  static race(list) {
    return new this((resolve, reject) => {
      for (const item of list) this.resolve(item).then(resolve, reject);
    });
  }

  static any(list) {
    return new this((resolve, reject) => {
      const errors = [];
      let left = 1;
      const failed = () => {
        left -= 1;
        if (left === 0) reject(new AggregateError(errors, "all promises were rejected"));
      };
      let at = 0;
      for (const item of list) {
        const place = at;
        left += 1;
        errors.push(undefined);
        this.resolve(item).then(resolve, (error) => {
          errors[place] = error;
          failed();
        });
        at += 1;
      }
      failed();
    });
  }
}
Object.defineProperty(OwnPromise, "name", { value: "Promise" });
globalThis.Promise = OwnPromise;
globalThis.queueMicrotask = (job) => {
  if (typeof job !== "function") throw new TypeError("queueMicrotask needs a function");
  later(job);
};

// Timers. They run while an operation waits for a promise, and those that are due when it has ended.

let timers = [];
let nextTimer = 1;
const now = () => Number(hostClock.now()) / 1e6;

function timer(run, delay, args, every) {
  if (typeof run !== "function") throw new TypeError("a timer needs a function");
  const wait = Math.max(0, Number(delay) || 0);
  const id = nextTimer++;
  timers.push({ id, run, args, wait, at: live ? now() + wait : wait, every });
  return id;
}
const stop = (id) => {
  timers = timers.filter((one) => one.id !== id);
};
globalThis.setTimeout = (run, delay, ...args) => timer(run, delay, args, false);
globalThis.setInterval = (run, delay, ...args) => timer(run, Math.max(1, Number(delay) || 0), args, true);
globalThis.setImmediate = (run, ...args) => timer(run, 0, args, false);
globalThis.clearTimeout = globalThis.clearInterval = globalThis.clearImmediate = stop;

/** Runs the first timer, after its time; nothing if `due` and it is not yet due, or if there is none. */
function runTimer(due) {
  let first;
  for (const one of timers) if (!first || one.at < first.at) first = one;
  if (!first) return false;
  const left = first.wait > 0 ? first.at - now() : 0;
  if (left > 0) {
    if (due) return false;
    hostClock.subscribeDuration(Math.ceil(left * 1e6)).block();
  }
  if (first.every) first.at = now() + first.wait;
  else stop(first.id);
  first.run(...first.args);
  return true;
}

/** The value of what an operation returned: of a promise, what it settles to. `name` is the operation's. */
export function settled(value, name) {
  let result = value;
  if (value instanceof NativePromise) {
    throw new Error(
      `\`${name}\` returned a promise of the engine, which cannot be awaited: build with \`opcell plugin build\`, which rewrites async functions`,
    );
  }
  const thenable = value !== null && (typeof value === "object" || typeof value === "function") && typeof value.then === "function";
  if (thenable) {
    const promise = value instanceof OwnPromise ? value : new OwnPromise((resolve, reject) => value.then(resolve, reject));
    let [state, inner] = OwnPromise.stateOf(promise);
    for (;;) {
      drain();
      [state, inner] = OwnPromise.stateOf(promise);
      if (state !== "pending") break;
      if (!runTimer(false)) {
        throw new Error(`the promise that \`${name}\` returned is never settled: nothing that it could wait for is left`);
      }
    }
    if (state === "rejected") throw inner;
    result = inner;
  }
  drain();
  while (runTimer(true)) drain();
  if (timers.length > 0) {
    hostLog.log("warn", `${timers.length} timer(s) had not run when \`${name}\` ended, and will not run: await them`);
  }
  for (const promise of unhandled) {
    hostLog.log("warn", `a promise was rejected, and nothing handles it: ${inspect(OwnPromise.stateOf(promise)[1])}`);
  }
  return result;
}

// Randomness: seeded by the host in every call.

const loadRandom = Math.random;
let seed;
const bytes = (length) => Uint8Array.from(hostRandom.getRandomBytes(length));

function random32() {
  // sfc32: a small generator of good quality; the host is asked for its seed only.
  if (!seed) seed = new Uint32Array(bytes(16).buffer);
  const sum = (seed[0] + seed[1] + seed[3]) | 0;
  seed[3] += 1;
  seed[0] = seed[1] ^ (seed[1] >>> 9);
  seed[1] = seed[2] + (seed[2] << 3);
  seed[2] = ((seed[2] << 21) | (seed[2] >>> 11)) + sum;
  return sum >>> 0;
}
Math.random = () => {
  if (!live) return loadRandom();
  return (random32() * 0x200000 + (random32() >>> 11)) / 0x20000000000000;
};

const KINDS = ["Int8Array", "Uint8Array", "Uint8ClampedArray", "Int16Array", "Uint16Array", "Int32Array", "Uint32Array", "BigInt64Array", "BigUint64Array"];
const MAX_RANDOM = 65536;
globalThis.crypto = {
  getRandomValues(view) {
    if (!live) throw duringLoad("crypto.getRandomValues");
    if (!ArrayBuffer.isView(view) || !KINDS.includes(view[Symbol.toStringTag])) {
      throw new TypeError("crypto.getRandomValues needs an array of integers");
    }
    if (view.byteLength > MAX_RANDOM) throw new RangeError(`crypto.getRandomValues gives at most ${MAX_RANDOM} bytes`);
    new Uint8Array(view.buffer, view.byteOffset, view.byteLength).set(bytes(view.byteLength));
    return view;
  },
  randomUUID() {
    if (!live) throw duringLoad("crypto.randomUUID");
    const id = bytes(16);
    id[6] = (id[6] & 0x0f) | 0x40;
    id[8] = (id[8] & 0x3f) | 0x80;
    const hex = Array.from(id, (byte) => byte.toString(16).padStart(2, "0")).join("");
    return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
  },
};

// Clocks: `Date` reads the host's already; the engine's `performance` counts from when the plugin was built.

let origin;
const sinceBegin = () => {
  if (!live) return 0;
  const at = now();
  origin ??= { at, epoch: Date.now() };
  return at - origin.at;
};
globalThis.performance = {
  now: sinceBegin,
  get timeOrigin() {
    sinceBegin();
    return origin?.epoch ?? 0;
  },
};

// Text.

if (!globalThis.TextEncoder) {
  globalThis.TextEncoder = class TextEncoder {
    get encoding() {
      return "utf-8";
    }
    encode(text = "") {
      // Half of a pair is no text.
      const encoded = unescape(encodeURIComponent(String(text).toWellFormed()));
      return Uint8Array.from(encoded, (letter) => letter.charCodeAt(0));
    }
  };
}
if (!globalThis.TextDecoder) {
  globalThis.TextDecoder = class TextDecoder {
    #fatal;
    #keepMark;
    constructor(label = "utf-8", { fatal = false, ignoreBOM = false } = {}) {
      if (!/^\s*(utf-?8|unicode-1-1-utf-8)\s*$/i.test(label)) throw new RangeError(`\`${label}\`: only UTF-8 is decoded here`);
      this.#fatal = fatal;
      this.#keepMark = ignoreBOM;
    }
    get encoding() {
      return "utf-8";
    }
    decode(input = new Uint8Array()) {
      const view = ArrayBuffer.isView(input) ? new Uint8Array(input.buffer, input.byteOffset, input.byteLength) : new Uint8Array(input);
      const text = decode(view, this.#fatal);
      return !this.#keepMark && text.startsWith("\ufeff") ? text.slice(1) : text;
    }
  };
}

function decode(view, fatal) {
  const parts = [];
  let part = "";
  for (let at = 0; at < view.length; ) {
    const first = view[at];
    const length = first < 0x80 ? 1 : first >= 0xc2 && first < 0xe0 ? 2 : first >= 0xe0 && first < 0xf0 ? 3 : first >= 0xf0 && first < 0xf5 ? 4 : 0;
    let code = length === 1 ? first : first & (0xff >> (length + 1));
    let used = 1;
    for (; used < length; used += 1) {
      const next = view[at + used];
      const low = used > 1 ? 0x80 : first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80;
      const high = used > 1 ? 0xbf : first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf;
      if (!(next >= low && next <= high)) break;
      code = (code << 6) | (next & 0x3f);
    }
    if (length === 0 || used < length) {
      if (fatal) throw new TypeError("the bytes are not UTF-8");
      code = 0xfffd;
    }
    part += String.fromCodePoint(code);
    at += used;
    if (part.length > 4096) {
      parts.push(part);
      part = "";
    }
  }
  return parts.join("") + part;
}

// The console is the log.

const MAX_TEXT = 8192;

/** A value as text, for people. */
export function inspect(value, depth = 3, seen = []) {
  if (typeof value === "string") return depth < 3 ? JSON.stringify(value) : value;
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value === "symbol") return value.toString();
  if (typeof value === "function") return `[${value.name ? `Function: ${value.name}` : "Function"}]`;
  if (value === null || typeof value !== "object") return Object.is(value, -0) ? "-0" : String(value);
  if (seen.includes(value)) return "[Circular]";
  if (value instanceof Error) return [`${value.name}: ${value.message}`, ...framesOf(value).map((frame) => `  ${frame}`)].join("\n");
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? "Invalid Date" : value.toISOString();
  if (value instanceof RegExp) return String(value);
  if (value instanceof OwnPromise) return `Promise { ${OwnPromise.stateOf(value)[0]} }`;
  const name = value.constructor?.name;
  const around = [...seen, value];
  const part = (inner) => inspect(inner, depth - 1, around);
  const MOST = 100;
  const listed = (items, more) => [...items, ...(more > 0 ? [`… ${more} more`] : [])].join(", ");
  if (Array.isArray(value) || ArrayBuffer.isView(value)) {
    const length = value.length ?? value.byteLength;
    if (depth < 0) return `[${name ?? "Array"}]`;
    const items = Array.isArray(value) || value.slice ? Array.from(value.slice(0, MOST), part) : [];
    return `${name && name !== "Array" ? `${name}(${length}) ` : ""}[${items.length ? ` ${listed(items, length - MOST)} ` : ""}]`;
  }
  if (depth < 0) return `[${name ?? "Object"}]`;
  if (value instanceof Map) return `Map(${value.size}) { ${listed([...value].slice(0, MOST).map(([key, inner]) => `${part(key)} => ${part(inner)}`), value.size - MOST)} }`;
  if (value instanceof Set) return `Set(${value.size}) { ${listed([...value].slice(0, MOST).map(part), value.size - MOST)} }`;
  const keys = Object.keys(value);
  const shown = keys.slice(0, MOST).map((key) => `${/^[\w$]+$/.test(key) ? key : JSON.stringify(key)}: ${part(value[key])}`);
  const body = shown.length ? `{ ${listed(shown, keys.length - MOST)} }` : "{}";
  return name && name !== "Object" ? `${name} ${body}` : body;
}

function format(args) {
  let rest = [...args];
  let text = "";
  if (typeof rest[0] === "string" && rest.length > 1) {
    const pattern = rest.shift();
    text = pattern.replace(/%[sdifjoOc%]/g, (hole) => {
      if (hole === "%%") return "%";
      if (rest.length === 0) return hole;
      const value = rest.shift();
      if (hole === "%s") return inspect(value);
      if (hole === "%d") return String(Number(value));
      if (hole === "%i") return String(Math.trunc(Number(value)));
      if (hole === "%f") return String(parseFloat(value));
      if (hole === "%c") return "";
      return hole === "%j" ? JSON.stringify(value) : inspect(value);
    });
    rest = rest.map((value) => inspect(value));
    text = [text, ...rest].join(" ");
  } else {
    text = rest.map((value) => inspect(value)).join(" ");
  }
  return text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}…` : text;
}

let indent = "";
function write(level, args) {
  const text = indent + format(args).replaceAll("\n", `\n${indent}`);
  if (live) hostLog.log(level, text);
  else if (early.length < MAX_EARLY) early.push([level, text]);
}
const counts = new Map();
const times = new Map();
globalThis.console = {
  log: (...args) => write("info", args),
  info: (...args) => write("info", args),
  debug: (...args) => write("debug", args),
  warn: (...args) => write("warn", args),
  error: (...args) => write("error", args),
  trace: (...args) => write("debug", [format(args), `\n${new Error().stack ?? ""}`]),
  dir: (value) => write("info", [inspect(value)]),
  table: (value) => write("info", [inspect(value)]),
  assert: (holds, ...args) => holds || write("error", ["Assertion failed:", ...args]),
  group: (...args) => {
    if (args.length) write("info", args);
    indent += "  ";
  },
  groupEnd: () => {
    indent = indent.slice(2);
  },
  count: (label = "default") => {
    counts.set(label, (counts.get(label) ?? 0) + 1);
    write("info", [`${label}: ${counts.get(label)}`]);
  },
  countReset: (label = "default") => void counts.delete(label),
  time: (label = "default") => void times.set(label, sinceBegin()),
  timeLog: (label = "default", ...args) => write("info", [`${label}: ${(sinceBegin() - (times.get(label) ?? 0)).toFixed(3)} ms`, ...args]),
  timeEnd: (label = "default") => {
    write("info", [`${label}: ${(sinceBegin() - (times.get(label) ?? 0)).toFixed(3)} ms`]);
    times.delete(label);
  },
};
console.groupCollapsed = console.group;

// What a plugin does not have says what to use.

const absent = (name, instead) => {
  if (name in globalThis) return;
  const refuse = function () {
    throw new Error(`a plugin has no \`${name}\`: ${instead}`);
  };
  Object.defineProperty(refuse, "name", { value: name });
  globalThis[name] = refuse;
};
const HTTP = 'ask for the tool in plugin.toml (`[[capabilities.tools]]`, name = "http.fetch") and call `tools.call("http.fetch", { url })` of the SDK';
absent("fetch", HTTP);
absent("XMLHttpRequest", HTTP);
absent("WebSocket", HTTP);
absent("EventSource", HTTP);
absent("Worker", "an operation runs on one thread; split the work into calls of a workflow");
