// The plugin that all SDKs are held to, in JavaScript.
import { Denied, Failure, Success, files, judge, keyword, log, operation, plugin, skills, store, tools } from "../sdk/opcell.js";

const text = { type: "string" };
const object = (properties) => ({ type: "object", properties, required: Object.keys(properties), additionalProperties: false });
const make = (id, summary, effects, properties, run) =>
  operation(id, { summary, effects, arguments: object(properties), data: { type: "object" } }, run);

const operations = [
  make("kit/echo", "Returns its argument.", "pure", { value: true }, ({ value }) =>
    new Success({ value }, { summary: "echoed", details: { language: "any" } })),
  make("kit/read", "Reads a file.", "pure", { root: text, path: text }, ({ root, path }) => ({ text: files.readText(root, path) })),
  make("kit/write", "Writes a file.", "idempotent", { root: text, path: text, text }, ({ root, path, text }) => {
    files.write(root, path, text);
    return { written: text.length };
  }),
  make("kit/list", "Lists a directory, and reads each file in it 20 times.", "pure", { root: text, path: text }, ({ root, path }) => {
    const entries = files.entries(root, path);
    let bytes = 0;
    for (const { name } of entries.filter(({ kind }) => kind === "file")) {
      for (let time = 0; time < 20; time += 1) bytes += files.read(root, path ? `${path}/${name}` : name).length;
    }
    return { entries, bytes };
  }),
  make("kit/tool", "Calls a tool; a refusal is a value.", "once", { name: text, input: { type: "object" } }, ({ name, input }) => {
    try {
      return { answer: tools.call(name, input) };
    } catch (error) {
      if (error instanceof Denied) return { denied: error.denial.capability };
      throw error;
    }
  }),
  make("kit/skill", "Reads a skill.", "pure", { name: text }, ({ name }) => ({ body: skills.read(name) })),
  make(
    "kit/keep",
    "Keeps a value, and goes through all that a store can do.",
    "idempotent",
    { name: text, key: text, value: text },
    ({ name, key, value }) => {
      const before = store.get(name, key) !== undefined;
      const version = store.set(name, key, value);
      const { conflict } = store.compareAndSet(name, key, undefined, "other");
      const swapped = store.compareAndSet(name, key, version, `${value}!`).stored !== undefined;
      store.set(name, "zz", "");
      const first = store.list(name, { limit: 1 });
      const rest = store.list(name, { after: key });
      const kept = store.getText(name, key);
      const deleted = [store.delete(name, key), store.delete(name, key)];
      return { before, conflict: conflict.text, swapped, first: first.keys, more: first.more, rest: rest.keys, kept, deleted };
    },
  ),
  make("kit/note", "Logs two lines and its progress.", "pure", { text }, ({ text }) => {
    log.info(`first ${text}`);
    log.warn(`second ${text}`);
    log.progress(1, 2, "half");
    return {};
  }),
  make("kit/fail", "Fails on purpose.", "pure", { reason: text }, ({ reason }) => {
    throw new Failure(reason, "on purpose", { why: [1, 2] });
  }),
  make("kit/panic", "Panics.", "pure", { message: text }, ({ message }) => {
    throw new TypeError(message);
  }),
  make("kit/where", "Says where in a run it is called.", "pure", {}, (_, { run, step, visit, attempt, idempotencyKey: key }) => ({
    run, step, visit, attempt, key,
  })),
];

const tone = judge(
  "kit/tone",
  { summary: "Says whether a text is polite.", outcomes: ["polite", "rude", keyword("silent")], arguments: object({ text }) },
  ({ text }) => {
    if (!text) return keyword("silent");
    return text.toLowerCase().includes("please") ? { outcome: "polite", rationale: "it says please" } : "rude";
  },
);

const exported = plugin({ operations, judges: [tone] });
export const { judges } = exported;
const exportedOperations = exported.operations;
export { exportedOperations as operations };
