// Processes of the systems, and their folders.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

// What the end of the harness takes with it, the newest first: processes, then the folders that they use.
const atExit = [];
process.on("exit", () => atExit.reverse().forEach((end) => end()));

/** Makes a folder that goes with the harness. */
export function folder(name) {
  const path = mkdtempSync(join(tmpdir(), `three-steps-${name}-`));
  atExit.push(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** Returns a port of this machine that nothing uses yet. */
export function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/** Starts a program that ends with the harness. Its last words are part of the error if it ends by itself. */
export function start(program, words, options = {}) {
  const child = spawn(program, words, { stdio: ["ignore", "pipe", "pipe"], ...options });
  const started = { child, said: "", ended: false };
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk) => (started.said = (started.said + chunk).slice(-4000)));
  }
  started.end = new Promise((resolve) => {
    child.on("error", (error) => {
      started.said += error.message;
      started.ended = true;
      resolve();
    });
    child.on("exit", () => {
      started.ended = true;
      resolve();
    });
  });
  atExit.push(() => child.kill("SIGKILL"));
  return started;
}

/** Stops what `start` started. */
export async function stop(started, signal = "SIGTERM") {
  if (!started.ended) started.child.kill(signal);
  await started.end;
}

/** Waits until an address answers. */
export async function answers(started, url, seconds = 60) {
  for (let tried = 0; tried < seconds * 20; tried += 1) {
    if (started.ended) throw new Error(`it ended: ${started.said}`);
    const answer = await fetch(url).catch(() => undefined);
    await answer?.body?.cancel();
    if (answer?.ok) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`${url} does not answer: ${started.said}`);
}

/** Posts JSON, and returns the JSON of the answer. */
export async function post(url, body) {
  const answer = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(60_000),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${url}: ${answer.status} ${text}`);
  return JSON.parse(text);
}
