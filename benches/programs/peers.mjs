// Other ways to run a program that a model wrote, each time in a fresh context: one line of JSON in, one out.
// `{"peer", "program", "count"}` is answered with the microseconds of each call. The first line out names the peers.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import vm from "node:vm";
import { Worker } from "node:worker_threads";

const read = (name) => readFileSync(new URL(name, import.meta.url), "utf8");
const PROGRAMS = { trivial: "return 1 + 1;", fifty: read("fifty.js") };
const PYTHON = { trivial: "result = 1 + 1", fifty: `async def program():\n${read("fifty.py").replace(/^/gm, "    ")}` };
const RESULTS = { trivial: "2" };

const PRELUDE = `const console = { log() {} };
const tools = { echo: async (given) => JSON.parse(__echo(JSON.stringify(given))) };`;
const main = (source) => `(async () => { ${PRELUDE}\nreturn JSON.stringify(await (async () => { ${source}\n})()); })()`;

const peers = {};
const missing = {};
/** A peer whose packages may not be installed. */
const offer = async (name, about, make) => {
  try {
    peers[name] = { about, run: await make() };
  } catch (error) {
    missing[name] = String(error.message ?? error).split("\n")[0];
  }
};

await offer("node-vm", "a new context of Node's vm: no boundary", () => (source) => {
  const context = vm.createContext({ __echo: (text) => text });
  return vm.runInContext(main(source), context);
});
await offer("node-worker", "a fresh worker thread of Node", () => (source) =>
  new Promise((resolve, reject) => {
    const text = `const { parentPort } = require("node:worker_threads");
      const __echo = (text) => text;
      ${main(source)}.then((result) => parentPort.postMessage(result));`;
    const worker = new Worker(text, { eval: true, resourceLimits: { maxOldGenerationSizeMb: 64 } });
    worker.once("message", (result) => worker.terminate().then(() => resolve(result)));
    worker.once("error", reject);
  }));
await offer("node-process", "a Node process", () => (source) => {
  const text = `const __echo = (text) => text; ${main(source)}.then((result) => process.stdout.write(result));`;
  return spawnSync(process.execPath, ["-e", text]).stdout.toString();
});
await offer("quickjs-emscripten", "QuickJS in Wasm within Node: a fresh runtime and context of one instance", async () => {
  const { getQuickJS } = await import("quickjs-emscripten");
  const engine = await getQuickJS();
  return (source) => {
    const runtime = engine.newRuntime();
    runtime.setMemoryLimit(64 << 20);
    const context = runtime.newContext();
    const echo = context.newFunction("__echo", (text) => context.newString(context.getString(text)));
    context.setProp(context.global, "__echo", echo);
    echo.dispose();
    const ended = context.evalCode(`${main(source)}.then((result) => { globalThis.__result = result; })`);
    if (ended.error) throw new Error(JSON.stringify(context.dump(ended.error)));
    ended.value.dispose();
    runtime.executePendingJobs();
    const result = context.getProp(context.global, "__result").consume((handle) => context.getString(handle));
    context.dispose();
    runtime.dispose();
    return result;
  };
});
await offer("isolated-vm", "a fresh V8 isolate with a limit of memory", async () => {
  const { default: ivm } = await import("isolated-vm");
  return async (source) => {
    const isolate = new ivm.Isolate({ memoryLimit: 64 });
    const context = await isolate.createContext();
    await context.global.set("__echo", new ivm.Callback((text) => text));
    const result = await context.eval(main(source), { promise: true, copy: true });
    isolate.dispose();
    return result;
  };
});
const python = `import asyncio, json, sys
class Tools:
    async def echo(self, **given): return json.loads(json.dumps(given))
space = {"tools": Tools()}
source, out = sys.stdin.read(), sys.stdout
sys.stdout = sys.stderr
exec(source, space)
result = asyncio.run(space["program"]()) if "program" in space else space["result"]
out.write(json.dumps(result, separators=(",", ":")))`;
await offer("python-process", "a process of python3 -I", () => {
  if (spawnSync("python3", ["-I", "-c", "pass"]).status !== 0) throw new Error("no python3");
  return (_, name) => spawnSync("python3", ["-I", "-c", python], { input: PYTHON[name] }).stdout.toString();
});
await offer("pyodide", "CPython in Wasm within Node: a fresh instance", async () => {
  const { loadPyodide } = await import("pyodide");
  return async (_, name) => {
    const instance = await loadPyodide({ stdout: () => {} });
    instance.globals.set("echo", (text) => text);
    const head = `import json
class Tools:
    async def echo(self, **given): return json.loads(echo(json.dumps(given)))
tools = Tools()\n`;
    const end = name === "fifty" ? "\nresult = await program()" : "";
    return instance.runPythonAsync(`${head}${PYTHON[name]}${end}\njson.dumps(result, separators=(",", ":"))`);
  };
});

// Each has to do what the others do.
for (const [name, peer] of Object.entries(peers)) {
  for (const program of Object.keys(PROGRAMS)) {
    try {
      const result = JSON.stringify(JSON.parse(await peer.run(PROGRAMS[program], program)));
      RESULTS[program] ??= result;
      const same = (text) => text.replace(/\.0\b/g, "");
      if (same(result) !== same(RESULTS[program])) throw new Error(`${program} gave ${result}, not ${RESULTS[program]}`);
    } catch (error) {
      missing[name] = String(error.message ?? error).split("\n")[0];
      delete peers[name];
      break;
    }
  }
}
const abouts = Object.entries(peers).map(([name, { about }]) => [name, about]);
console.log(JSON.stringify({ peers: Object.fromEntries(abouts), missing, results: RESULTS }));

for await (const line of createInterface({ input: process.stdin })) {
  const { peer, program, count } = JSON.parse(line);
  const times = [];
  for (let made = 0; made < count; made += 1) {
    const began = process.hrtime.bigint();
    await peers[peer].run(PROGRAMS[program], program);
    times.push(Number(process.hrtime.bigint() - began) / 1000);
  }
  console.log(JSON.stringify(times));
}
