// What JavaScript has elsewhere, as operations; each takes nothing, and its case says what it gives.
import { readFileSync } from "node:fs";
import { operation, plugin } from "../sdk/opcell.js";
import { double } from "old-style";

type Run = () => unknown;
const make = (name: string, run: Run) =>
  operation(`kit/${name}`, { summary: `Shows ${name}.`, arguments: { type: "object" }, data: true }, run as never);

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

async function* numbers() {
  for (let n = 1; n <= 3; n += 1) {
    await sleep(1);
    yield n;
  }
}

export const { operations, judges } = plugin({
  operations: [
    make("random", () => [Math.random(), crypto.randomUUID(), String(crypto.getRandomValues(new Uint8Array(8))), Math.random()]),
    make("now", () => Date.now()),
    make("clock", () => {
      const before = performance.now();
      return [performance.now() >= before, new Date(performance.timeOrigin).getFullYear() > 2023];
    }),
    make("async", async () => {
      let sum = 0;
      for await (const n of numbers()) sum += n;
      const settled = await Promise.allSettled([sleep(2), Promise.reject(new Error("no"))]);
      return { sum, settled: settled.map(({ status }) => status), first: await Promise.race([sleep(50), "at once"]) };
    }),
    make("never", () => new Promise(() => {})),
    make("rejects", async () => {
      await null;
      throw new RangeError("out of range");
    }),
    make("timer", () => {
      setTimeout(() => console.log("ran after the operation"), 0);
      return null;
    }),
    make("console", () => {
      console.log("one %s of %d", "text", 2, { of: ["three", 3] });
      console.error(new Map([["key", 1]]));
      return null;
    }),
    make("fetch", () => fetch("https://example.com")),
    make("node", () => readFileSync("/etc/passwd")),
    make("process", () => process.env.HOME),
    make("package", () => double(21)),
    make("text", () => new TextDecoder().decode(new TextEncoder().encode("ä€😀"))),
  ],
});
