// Three durable steps, each of which returns a number, in several systems over HTTP: the workflow and the figures of
// Windmill's comparison of workflow engines (windmill-labs/windmill, `benchmarks/competitors`), without containers.
//
// node harness.mjs --opcell PROGRAM [--only NAME,…] [--rounds N] [--samples N] [--batch N] [--json]
//
// All systems run at the same time, and each round measures one after another, so that other work on the machine slows
// all of them. A system that this machine cannot start is named on stderr and left out.

import { availableParallelism, cpus } from "node:os";
import { parseArgs } from "node:util";
import { opcellOnPostgres, opcellOnSqlite } from "./opcell.mjs";
import { dbos } from "./dbos.mjs";
import { restate } from "./restate.mjs";
import { Postgres } from "./postgres.mjs";

const { values: options } = parseArgs({
  options: {
    opcell: { type: "string" },
    only: { type: "string" },
    rounds: { type: "string", default: "5" },
    samples: { type: "string", default: "50" },
    batch: { type: "string", default: "100" },
    json: { type: "boolean", default: false },
  },
});
const [rounds, samples, batch] = [options.rounds, options.samples, options.batch].map((text) => {
  const number = Number(text);
  if (!Number.isInteger(number) || number < 1) throw new Error(`${text} is not a positive integer`);
  return number;
});
if (!options.opcell) throw new Error("--opcell PROGRAM is missing");

// At least five runs warm a system up, as in the harness that this follows.
const WARM_UP = 5;

const systems = [opcellOnSqlite, opcellOnPostgres, restate, dbos];
const wanted = options.only?.split(",");
const unknown = wanted?.filter((name) => !systems.some((system) => system.name === name)) ?? [];
if (unknown.length) throw new Error(`unknown: ${unknown}; there are ${systems.map(({ name }) => name).join(", ")}`);

const postgres = new Postgres();
const running = [];
try {
  for (const system of systems) {
    if (wanted && !wanted.includes(system.name)) continue;
    try {
      const started = await system.start({ opcell: options.opcell, postgres });
      running.push({ name: system.name, ...started, coldMs: 0, latencies: [], perSecond: [] });
    } catch (error) {
      console.error(`SKIPPED: ${system.name} does not start: ${error.message}`);
    }
  }
  for (const system of running) {
    system.coldMs = await timed(() => once(system));
    for (let run = 0; run < WARM_UP; run += 1) await once(system);
  }
  for (let round = 0; round < rounds; round += 1) {
    console.error(`round ${round + 1} of ${rounds}`);
    for (const system of running) {
      for (let sample = 0; sample < samples; sample += 1) system.latencies.push(await timed(() => once(system)));
      const elapsed = await timed(() => Promise.all(Array.from({ length: batch }, () => once(system))));
      system.perSecond.push(batch / (elapsed / 1000));
    }
  }
} finally {
  for (const system of running.reverse()) await system.stop();
  await postgres.stop();
  running.reverse();
}

const figures = running.map(({ name, version, coldMs, latencies, perSecond }) => ({
  name,
  version,
  "cold-start-ms": round(coldMs),
  "median-ms": round(quantile(latencies, 0.5)),
  "p95-ms": round(quantile(latencies, 0.95)),
  "per-step-ms": round(quantile(latencies, 0.5) / 3),
  "workflows-per-second": Math.round(quantile(perSecond, 0.5)),
}));
if (options.json) {
  const machine = { processors: availableParallelism(), model: cpus()[0]?.model, node: process.version };
  console.log(JSON.stringify({ machine, rounds, samples, batch, figures }, null, 2));
} else {
  console.log(`three steps over HTTP; ${rounds} rounds of ${samples} runs one by one and ${batch} at once`);
  console.log("| system | version | first run | median | 95th percentile | per step | runs per second |");
  console.log("| --- | --- | --- | --- | --- | --- | --- |");
  for (const figure of figures) {
    const [name, version, ...times] = Object.values(figure);
    const perSecond = times.pop();
    console.log(`| ${name} | ${version} | ${times.map((ms) => `${ms} ms`).join(" | ")} | ${perSecond} |`);
  }
}

// Runs the workflow to its end, and fails on any other result.
async function once(system) {
  const result = await system.run();
  const { a, b, c } = result ?? {};
  if (a !== 1 || b !== 2 || c !== 3) throw new Error(`${system.name} returned ${JSON.stringify(result)}`);
}

async function timed(work) {
  const began = performance.now();
  await work();
  return performance.now() - began;
}

function quantile(values, part) {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))];
}

function round(ms) {
  return Math.round(ms * 100) / 100;
}
