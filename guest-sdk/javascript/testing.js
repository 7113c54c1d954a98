// Unit tests of a plugin in the Node of this machine, with doubles of what a host serves.
//
//   import assert from "node:assert/strict";
//   import { test } from "node:test";
//   import { host } from "../sdk/testing.js";
//   import { count } from "../src/plugin.js";
//
//   test("counts words", async () => {
//     host({ files: { texts: { "a.md": "one two" } } });
//     assert.deepEqual(await count.run({ extension: ".md" }), { files: 1, words: 2 });
//   });
//
// Run them with `npm test`, which is `node --import ./sdk/testing.js --test`. What a test gives no double of is denied, as
// by an operator who granted nothing. `opcell plugin test` runs cases in real cells, with the real limits.
import { register } from "node:module";

const text = new TextEncoder();
const bytes = (value) => (typeof value === "string" ? text.encode(value) : value);
const trees = (given, entry) =>
  new Map(Object.entries(given).map(([name, tree]) => [name, new Map(Object.entries(tree).map(([key, value]) => [key, entry(value)]))]));

let current = {};

/** Serves these doubles from here on: tools as functions, skills and files as texts, stores as values by key. */
export function host({ tools = {}, skills = {}, files = {}, stores = {} } = {}) {
  current = { tools, skills, files: trees(files, bytes), stores: trees(stores, (value) => ({ value: bytes(value), version: 0n })), log: [], versions: 0n };
  return {
    /** The lines that were logged. */
    log: current.log,
    /** The text of a file that is there now; undefined if there is none. */
    file: (root, path) => decoded(current.files.get(root)?.get(path)),
    /** The text of a value that is there now; undefined if there is none. */
    stored: (store, key) => decoded(current.stores.get(store)?.get(key)?.value),
  };
}
host();

const decoded = (value) => (value === undefined ? undefined : new TextDecoder().decode(value));
const thrown = (tag, val) => Object.assign(new Error(tag), { payload: { tag, val } });
const denied = (kind, name) => thrown("denied", { capability: `${kind} ${name}`, rule: `the test gives no double of ${kind} \`${name}\`` });

function own(kind, doubles, name) {
  if (!Object.hasOwn(doubles, name)) throw denied(kind, name);
  return doubles[name];
}
function held(kind, doubles, name) {
  if (!doubles.has(name)) throw denied(kind, name);
  return doubles.get(name);
}

function directory(tree, prefix = "") {
  const below = (path) => [...tree.keys()].some((known) => known.startsWith(`${path}/`));
  return {
    entries() {
      const found = new Map();
      for (const [path, content] of tree) {
        if (!path.startsWith(prefix)) continue;
        const [name, ...inner] = path.slice(prefix.length).split("/");
        found.set(name, inner.length > 0 ? { name, kind: "directory", size: 0n } : { name, kind: "file", size: BigInt(content.length) });
      }
      return [...found.keys()].sort().map((name) => found.get(name));
    },
    openDirectory(path) {
      if (!below(prefix + path)) throw thrown("not-found");
      return directory(tree, `${prefix}${path}/`);
    },
    open(path) {
      if (!tree.has(prefix + path)) throw thrown(below(prefix + path) ? "not-a-file" : "not-found");
      return file(tree, prefix + path);
    },
    create(path) {
      tree.set(prefix + path, new Uint8Array());
      return file(tree, prefix + path);
    },
    remove(path) {
      if (!tree.delete(prefix + path)) throw thrown("not-found");
    },
  };
}

const file = (tree, path) => ({
  read: (offset, length) => tree.get(path).slice(offset, offset + length),
  write: (data) => void tree.set(path, Uint8Array.from([...tree.get(path), ...data])),
});

const store = {
  get: (name, key) => held("store", current.stores, name).get(key),
  set(name, key, value) {
    const entries = held("store", current.stores, name);
    current.versions += 1n;
    entries.set(key, { value, version: current.versions });
    return current.versions;
  },
  compareAndSet(name, key, expected, value) {
    const found = store.get(name, key);
    return found?.version === expected ? { tag: "stored", val: store.set(name, key, value) } : { tag: "conflict", val: found };
  },
  list(name, prefix, after, limit) {
    const keys = [...held("store", current.stores, name).keys()].sort();
    const found = keys.filter((key) => key.startsWith(prefix) && (after === undefined || key > after));
    return { keys: found.slice(0, limit), more: found.length > limit };
  },
  delete: (name, key) => held("store", current.stores, name).delete(key),
};

function called(name, args) {
  const tool = own("tool", current.tools, name);
  try {
    return JSON.stringify(tool(JSON.parse(args)) ?? null);
  } catch (error) {
    // A double fails as a tool does: with `Failure`.
    if (typeof error?.reason !== "string") throw error;
    const details = error.details === undefined ? undefined : JSON.stringify(error.details);
    throw thrown("failed", { reason: error.reason, message: error.message, details });
  }
}

const served = {
  "plugin/tools": { list: () => Object.keys(current.tools).map((name) => ({ name, summary: "", argumentsSchema: "{}" })), call: called },
  "plugin/skills": {
    list: () => Object.keys(current.skills).map((name) => ({ name, description: "" })),
    read: (name) => own("skill", current.skills, name),
    readResource: (name, path) => text.encode(own("skill", current.skills, `${name}/${path}`)),
  },
  "plugin/files": {
    roots: () => [...current.files.keys()].map((name) => ({ name, writable: true })),
    openRoot: (name) => directory(held("files", current.files, name)),
  },
  "plugin/store": store,
  "plugin/log": {
    log: (_, message) => void current.log.push(message),
    progress: (_done, _total, message) => void current.log.push(message),
    panicked: (message) => void current.log.push(message),
  },
  "javascript/handles": { closeDirectory() {}, closeFile() {} },
};

// The modules that a component imports, and the globals of a cell, of which Node has its own.
const SERVED = Symbol.for("opcell.testing");
globalThis[SERVED] = served;
const sources = Object.fromEntries(
  Object.entries(served).map(([name, members]) => [
    name,
    Object.keys(members)
      .map((member) => `const ${member}_ = (...given) => globalThis[Symbol.for("opcell.testing")]["${name}"].${member}(...given);\nexport { ${member}_ as "${member}" };\n`)
      .join(""),
  ]),
);
const hooks = `
  const sources = ${JSON.stringify(sources)};
  const runtime = ${JSON.stringify(new URL("./runtime.js", import.meta.url).href)};
  export async function resolve(specifier, context, next) {
    const served = /^opcell:([^@]+)@/.exec(specifier)?.[1];
    return served in sources ? { url: "opcell-testing:" + served, shortCircuit: true } : next(specifier, context);
  }
  export async function load(url, context, next) {
    const source = url === runtime ? "export const begin = () => {};\\nexport const settled = (value) => value;\\n" : sources[url.replace("opcell-testing:", "")];
    return source === undefined ? next(url, context) : { format: "module", shortCircuit: true, source };
  }`;
register(`data:text/javascript,${encodeURIComponent(hooks)}`);
