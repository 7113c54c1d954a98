// Starts, follows, approves and forks a run with types that were generated from the server's description.

import createClient from "openapi-fetch";
import type { paths } from "./generated.js";

declare const process: { argv: string[] };

const address = process.argv[2];
const client = createClient<paths>({ baseUrl: `http://${address}` });
const tenant = "default";

function check(holds: boolean, found: unknown): asserts holds {
  if (!holds) {
    throw new Error(JSON.stringify(found));
  }
}

async function waited(run: string, status: string) {
  for (let look = 0; look < 1200; look += 1) {
    const { data } = await client.GET("/v1/{tenant}/runs/{run}", { params: { path: { tenant, run } } });
    if (data?.status === status) {
      return data;
    }
    await new Promise((done) => setTimeout(done, 50));
  }
  throw new Error(`${run} is not ${status}`);
}

const started = await client.POST("/v1/{tenant}/runs", {
  params: { path: { tenant } },
  body: { workflow: "ask", run: "t1" },
});
check(started.data?.run === "t1", started);
const path = { tenant, run: "t1" };

const asked = await waited("t1", "suspended");
const [question] = asked.questions ?? [];
check(question !== undefined && "signal" in question, asked);
check(question.signal.approval === true && question.signal.name === "ship", question);

const events = await client.GET("/v1/{tenant}/runs/{run}/events", { params: { path } });
// The same path sends them as text to whoever asks for a stream.
check(typeof events.data === "object", events);
check(events.data.events[0]?.kind === "run-started" && events.data.events[0].seq === 1, events);

const approved = await client.POST("/v1/{tenant}/runs/{run}/approve", {
  params: { path },
  body: { question: question.signal.id, why: "fine" },
});
check(approved.response.ok, approved);
const done = await waited("t1", "completed");
check(done.used?.visits === 1, done);

const fork = await client.POST("/v1/{tenant}/runs/{run}/fork", { params: { path }, body: { at: 2 } });
check(fork.data?.forked?.run === "t1" && fork.data.forked.seq === 2, fork);
await waited(fork.data.run, "suspended");

const listed = await client.GET("/v1/{tenant}/runs", { params: { path: { tenant } } });
const names = listed.data?.runs.map((run) => run.run).sort();
check(JSON.stringify(names) === JSON.stringify(["t1", fork.data.run].sort()), names);

const missing = await client.GET("/v1/{tenant}/runs/{run}", { params: { path: { tenant, run: "none" } } });
check(missing.response.status === 404 && missing.error?.code === "unknown-run", missing);
console.log("done");
