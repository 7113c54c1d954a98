// What `opcell plugin build` gives for Node's own modules: there are none in a plugin, and using one says what to use.

const HTTP = 'ask for the tool in plugin.toml (`[[capabilities.tools]]`, name = "http.fetch") and call `tools.call("http.fetch", { url })` of the SDK';
const FILES = "ask for files in plugin.toml (`[[capabilities.files]]`) and use `files` of the SDK";
const SETTINGS = "a plugin has no environment and no arguments of a program; what it needs comes as arguments of its operations";
const INSTEAD = {
  fs: FILES,
  "fs/promises": FILES,
  child_process: "a plugin starts no programs; ask for a tool of the host that does what is needed",
  process: SETTINGS,
  os: SETTINGS,
  worker_threads: "an operation runs on one thread; split the work into calls of a workflow",
  cluster: "an operation runs on one thread; split the work into calls of a workflow",
};
for (const name of ["http", "https", "http2", "net", "tls", "dgram", "dns", "dns/promises"]) INSTEAD[name] = HTTP;

const insteadOf = (name) =>
  INSTEAD[name] ?? `it is a module of Node; a package that does the same without Node may be installed: npm install ${name.split("/")[0]}`;

/** Whatever is taken from it can be taken, and throws when it is called. */
function refusing(module, path) {
  const refuse = () => {
    throw new Error(`a plugin has no \`${path}\`: ${insteadOf(module)}`);
  };
  return new Proxy(function () {}, {
    apply: refuse,
    construct: refuse,
    get: (target, key) =>
      typeof key === "symbol" || ["then", "prototype", "name", "length"].includes(key) ? target[key] : refusing(module, `${path}.${key}`),
  });
}

function members(module, known) {
  return new Proxy(known, {
    get: (_, key) => {
      if (key in known) return known[key];
      return typeof key === "symbol" || ["then", "__esModule"].includes(key) ? undefined : refusing(module, `${module}.${key}`);
    },
  });
}

const crypto = {
  getRandomValues: (view) => globalThis.crypto.getRandomValues(view),
  randomUUID: () => globalThis.crypto.randomUUID(),
  randomBytes: (length) => globalThis.crypto.getRandomValues(new Uint8Array(length)),
  randomFillSync: (view) => globalThis.crypto.getRandomValues(view),
  randomInt(low, high) {
    const [from, to] = high === undefined ? [0, low] : [low, high];
    const range = to - from;
    if (!(Number.isSafeInteger(range) && range > 0 && range <= 0x100000000)) throw new RangeError("randomInt: a range of at most 2^32");
    // Numbers at the end that would make some results likelier are thrown again.
    const most = Math.floor(0x100000000 / range) * range;
    for (;;) {
      const [number] = globalThis.crypto.getRandomValues(new Uint32Array(1));
      if (number < most) return from + (number % range);
    }
  },
  get webcrypto() {
    return globalThis.crypto;
  },
};

const KNOWN = {
  crypto,
  timers: { setTimeout, setInterval, setImmediate, clearTimeout, clearInterval, clearImmediate },
  perf_hooks: { performance },
};

/**
 * The module of a name: a function, as some of Node's modules are one, that refuses to be called. Its prototype answers
 * for its members, since the bundler copies what an object has itself.
 */
module.exports = (name) => {
  const module = function () {
    throw new Error(`a plugin has no \`${name}\`: ${insteadOf(name)}`);
  };
  return Object.setPrototypeOf(module, members(name, KNOWN[name] ?? {}));
};
