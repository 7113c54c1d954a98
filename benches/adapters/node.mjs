// Adapter of `opcell selftest --against`: Node's own WebAssembly and WASI in a worker thread.
//
//     opcell selftest --against "node --no-warnings benches/adapters/node.mjs"
//
// The main thread ends the worker at the deadline. V8 has no limit for the memory of one instance below the module's own maximum, and none
// for tables, so both are watched from outside: `resourceLimits` bounds the heap of the worker, and the main thread looks at the size of the
// process every 10 ms. Node says of its WASI that it is not a sandbox.
import { openSync, readFileSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { WASI } from "node:wasi";
import { isMainThread, parentPort, Worker } from "node:worker_threads";

const STOPPED = 10;
const env = process.env;

function stop(reason) {
  writeSync(2, `${reason}\n`);
  // `process.exit` waits for workers, and one that is inside of a host function does not end.
  process.reallyExit(STOPPED);
}

if (isMainThread) {
  const idle = process.memoryUsage().rss;
  const worker = new Worker(new URL(import.meta.url), { resourceLimits: { maxOldGenerationSizeMb: 32, stackSizeMb: 4 } });
  const limit = idle + Number(env.SELFTEST_MEMORY_BYTES) + (64 << 20);
  // A worker in a long operation of the engine does not end when it is told to; the process does.
  const end = (reason) => {
    worker.terminate().then(() => stop(reason));
    setTimeout(() => stop(`${reason}, with the process`), 500);
  };
  setTimeout(() => end("the worker was ended at its deadline"), Number(env.SELFTEST_TIME_MS));
  setInterval(() => {
    if (process.memoryUsage().rss > limit) end("the worker was ended: the process had grown too large");
  }, 10);
  worker.on("error", (error) => stop(String(error.message).split("\n")[0]));
  worker.on("message", () => process.exit(0));
} else {
  const wasi = new WASI({
    version: "preview1",
    stdout: openSync(join(tmpdir(), `selftest-${process.pid}`), "w"),
    preopens: env.SELFTEST_DIRECTORY ? { "/": env.SELFTEST_DIRECTORY } : {},
  });
  const module = new WebAssembly.Module(readFileSync(env.SELFTEST_MODULE));
  const instance = new WebAssembly.Instance(module, wasi.getImportObject());
  if (instance.exports.memory) wasi.initialize(instance);
  instance.exports[env.SELFTEST_FUNCTION]();
  parentPort.postMessage("returned");
}
