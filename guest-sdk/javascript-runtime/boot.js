// The globals of a program beside those of the language, evaluated in each cell before the program. A program that
// replaces what these functions use harms itself alone: the host checks each call, and the reply is made in C.
(host) => {
  "use strict";
  const { Error, TypeError, Proxy, Map, Number, Object, RangeError, Uint8Array, Uint32Array, ArrayBuffer, Math, JSON } = globalThis;
  const { freeze, defineProperty, create } = Object;

  const define = (name, value) => defineProperty(globalThis, name, { value, writable: true, configurable: true });

  // Tools

  /** The grants do not extend to the call. */
  class ToolDenied extends Error {
    constructor({ capability, rule, remedy }) {
      super(`${capability} is denied: ${rule}`);
      this.capability = capability;
      this.rule = rule;
      this.remedy = remedy;
    }
  }
  /** The tool has failed. */
  class ToolError extends Error {
    constructor({ reason, message, details }) {
      super(message);
      this.reason = reason;
      if (details !== undefined) this.details = details;
    }
  }
  for (const kind of [ToolDenied, ToolError]) {
    defineProperty(kind.prototype, "name", { value: kind.name, writable: true, configurable: true });
  }

  // Calls are made when the program waits: one alone, or several at once.
  const call = defineProperty(host.begin, "name", { value: "call" });
  const sleep = async (ms) => {
    if (typeof ms !== "number" || !(ms >= 0)) throw new TypeError("sleep(milliseconds): a number, zero or more");
    await host.sleep(ms);
  };
  /** The error of a call that was refused or has failed, whose place in the program is where the call was made. */
  const failedCall = ({ denied, failed }, stack) => {
    const error = denied !== undefined ? new ToolDenied(denied) : new ToolError(failed);
    defineProperty(error, "stack", { value: stack, writable: true, configurable: true });
    return error;
  };

  // The names that are granted, asked for when a program first uses `tools`; and how they are written as identifiers,
  // which most are already.
  let names;
  let identifiers;
  const identified = (key) => {
    if (identifiers === undefined) {
      identifiers = new Map();
      for (const name of names.keys()) {
        const identifier = name.replace(/[^A-Za-z0-9_$]/g, "_");
        // Two names that look alike have to be written as they are.
        identifiers.set(identifier, identifiers.has(identifier) ? undefined : name);
      }
    }
    return identifiers.get(key);
  };
  const nameOf = (key) => {
    if (names === undefined) {
      names = new Map();
      for (const name of host.list()) names.set(name, true);
    }
    return names.has(key) ? key : (identified(key) ?? key);
  };
  const functions = new Map();
  const toolOf = (key) => {
    let tool = functions.get(key);
    if (tool === undefined) {
      tool = freeze(host.tool(nameOf(key)));
      functions.set(key, tool);
    }
    return tool;
  };
  const readOnly = () => {
    throw new TypeError("`tools` cannot be changed: it has the tools that are granted");
  };
  const tools = new Proxy(create(null), {
    get: (_, key) => (typeof key === "symbol" || key === "then" ? undefined : toolOf(key)),
    has: (_, key) => typeof key === "string" && (nameOf(key), names.has(key) || identified(key) !== undefined),
    ownKeys: () => (nameOf(""), [...names.keys()]),
    getOwnPropertyDescriptor: (_, key) =>
      typeof key === "string" && (nameOf(key), names.has(key))
        ? { value: toolOf(key), enumerable: true, configurable: true, writable: false }
        : undefined,
    set: readOnly,
    defineProperty: readOnly,
    deleteProperty: readOnly,
    setPrototypeOf: readOnly,
    preventExtensions: readOnly,
  });

  // Console

  const LEVELS = { __proto__: null, debug: 1, trace: 1, log: 2, info: 2, dir: 2, warn: 3, error: 4 };
  const console = {};
  for (const name in LEVELS) console[name] = (...parts) => host.log(LEVELS[name], ...parts);
  console.assert = (holds, ...parts) => void (holds || host.log(4, "assertion failed:", ...parts));
  define("console", console);

  // Randomness

  let words;
  let used = 0;
  defineProperty(Math, "random", {
    value: function random() {
      if (words === undefined || used + 2 > words.length) {
        words = new Uint32Array(host.random(4096));
        used = 0;
      }
      const high = words[used] >>> 5;
      const low = words[used + 1] >>> 6;
      used += 2;
      return (high * 67108864 + low) / 9007199254740992;
    },
    writable: true,
    configurable: true,
  });
  const MAX_RANDOM = 65536;
  const crypto = {
    getRandomValues(view) {
      if (!ArrayBuffer.isView(view)) throw new TypeError("crypto.getRandomValues: a typed array of integers");
      if (view.byteLength > MAX_RANDOM) throw new RangeError(`crypto.getRandomValues: at most ${MAX_RANDOM} bytes at once`);
      new Uint8Array(view.buffer, view.byteOffset, view.byteLength).set(new Uint8Array(host.random(view.byteLength)));
      return view;
    },
    randomUUID() {
      const bytes = new Uint8Array(host.random(16));
      bytes[6] = (bytes[6] & 0x0f) | 0x40;
      bytes[8] = (bytes[8] & 0x3f) | 0x80;
      let text = "";
      for (let at = 0; at < 16; at += 1) {
        if (at === 4 || at === 6 || at === 8 || at === 10) text += "-";
        text += (bytes[at] < 16 ? "0" : "") + bytes[at].toString(16);
      }
      return text;
    },
  };
  define("crypto", crypto);

  // Time

  let origin;
  const now = () => {
    const time = host.monotonic();
    origin ??= time;
    return time - origin;
  };
  define("performance", { now });
  const timers = new Map();
  let numbered = 0;
  let isPlugin = false;
  // More than a program takes that does not sleep, and the most that it sleeps.
  const LONG = 600_000;
  const MAX_SLEEP = 366 * 24 * 3_600_000;
  const timer = (run, delay, args, every) => {
    if (typeof run !== "function") throw new TypeError("a timer needs a function");
    const wait = Number(delay) > 0 ? Number(delay) : 0;
    const id = (numbered += 1);
    const one = { run, args, wait, every, at: wait > 0 ? now() + wait : 0 };
    timers.set(id, one);
    if (wait > LONG && !isPlugin) {
      one.at = Infinity;
      const due = () => {
        if (timers.get(id) !== one) return;
        if (every) again();
        else timers.delete(id);
        run(...args);
      };
      const again = () => sleep(wait < MAX_SLEEP ? wait : MAX_SLEEP).then(due);
      again();
    }
    return id;
  };
  const stop = (id) => void timers.delete(id);
  define("setTimeout", (run, delay, ...args) => timer(run, delay, args, false));
  define("setInterval", (run, delay, ...args) => timer(run, Number(delay) > 1 ? delay : 1, args, true));
  define("setImmediate", (run, ...args) => timer(run, 0, args, false));
  for (const name of ["clearTimeout", "clearInterval", "clearImmediate"]) define(name, stop);

  // JSON

  const parseJson = JSON.parse;
  const parse = (text, reviver) => {
    const json = `${text}`;
    if (host.nested(json)) throw new RangeError("JSON.parse: the text is nested more than 1000 deep");
    return parseJson(json, reviver);
  };
  defineProperty(JSON, "parse", { value: parse, writable: true, configurable: true });

  // Globals of other environments

  const without = (whose, name, instead) =>
    define(name, () => {
      throw new Error(`a ${whose} has no \`${name}\`: ${instead}`);
    });

  define("sleep", sleep);
  define("ToolDenied", ToolDenied);
  define("ToolError", ToolError);
  without("program", "fetch", 'call a tool that is granted, such as `await call("http.fetch", { url })`');
  const modules = "there are no modules; a program has the language, its input and the tools that it is granted";
  without("program", "require", modules);

  /** Makes this the engine of a source plugin, which imports its names from the SDK. */
  const begin = () => {
    isPlugin = true;
    for (const name of ["sleep", "ToolDenied", "ToolError"]) delete globalThis[name];
    const http = 'request the tool `http.fetch` in the manifest, and call `tools.call("http.fetch", { url })` of the SDK';
    without("plugin", "fetch", http);
    const packages = "a source plugin is one file; `opcell plugin new NAME --lang javascript` makes one with packages";
    without("plugin", "require", packages);
  };

  /** Runs the timer that is due first, after its time. Returns false if there is none. */
  const runTimer = () => {
    let first;
    let id;
    for (const [key, one] of timers) {
      if (one.at < Infinity && (first === undefined || one.at < first.at)) {
        first = one;
        id = key;
      }
    }
    if (first === undefined) return false;
    const left = first.at > 0 ? first.at - now() : 0;
    if (left > 0) host.wait(left);
    if (first.every) first.at = now() + first.wait;
    else timers.delete(id);
    first.run(...first.args);
    return true;
  };
  return [runTimer, begin, failedCall, freeze(call), tools];
}
