"use strict";

// The cases that hosts in every language run: bindings/cases.

const assert = require("node:assert/strict");
const { mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } = require("node:fs");
const { tmpdir } = require("node:os");
const path = require("node:path");
const { test } = require("node:test");
const { Host, Workflow } = require("opcell");

const REPOSITORY = process.env.OPCELL_REPOSITORY;
const CASES = path.join(REPOSITORY, "bindings/cases");
const OPERATIONS = path.join(REPOSITORY, "example-operations/dist");

/** Reads JSON whose integers beyond 53 bits are bigints, as the package has them. */
function read(text) {
  const marked = text.replace(/(?<=[[:,]\s*)-?\d{16,}(?=\s*[,\]}])/g, '"\\u0001$&"');
  const isMarked = (value) => typeof value === "string" && value.startsWith("\u0001");
  return JSON.parse(marked, (_, value) => (isMarked(value) ? BigInt(value.slice(1)) : value));
}

/** Returns the places at which what was found differs; an expected object names the keys that matter. */
function differences(expected, found, place) {
  const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
  if (isObject(expected) && isObject(found)) {
    return Object.entries(expected).flatMap(([key, value]) =>
      Object.hasOwn(found, key) ? differences(value, found[key], `${place}.${key}`) : [`${place}.${key} is missing`],
    );
  }
  if (Array.isArray(expected) && Array.isArray(found) && expected.length === found.length) {
    return expected.flatMap((value, n) => differences(value, found[n], `${place}[${n}]`));
  }
  return Object.is(expected, found) ? [] : [`${place} is ${String(found)} and not ${String(expected)}`];
}

async function perform(one, folder) {
  for (const [name, text] of Object.entries(one.files ?? {})) {
    mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
    writeFileSync(path.join(folder, name), text);
  }
  const project = one.project.join("\n").replaceAll("$OPERATIONS", OPERATIONS).replaceAll("$PROJECT", folder);
  writeFileSync(path.join(folder, "opcell.toml"), project);
  const host = new Host(path.join(folder, "opcell.toml"));
  for (const call of one.calls ?? []) {
    const reply = await host.invoke(call.operation, call.arguments);
    const { kind, code, fault } = reply.error ?? {};
    const receipt = reply.receipt?.raw ?? {};
    const found = { data: reply.data, failure: { kind, code, fault }, denials: receipt.denials ?? [], receipt };
    for (const key of ["data", "failure", "denials", "receipt"].filter((key) => key in call)) {
      assert.deepEqual(differences(call[key], found[key], `${call.operation}.${key}`), []);
    }
  }
  for (const run of one.runs ?? []) {
    const workflow = Workflow.compile(run.workflow.name, run.workflow.lines.join("\n"));
    const started = await host.start(workflow, run.input, { detach: true });
    let outcome = await started.outcome();
    if (run.answer) {
      await (await host.runById(started.id)).approve(run.answer.question, { by: "ann", why: run.answer.why });
      outcome = await (await host.resume(started.id)).outcome();
    }
    assert.deepEqual(differences(run.outcome, outcome.raw, run.workflow.name), []);
    if (run.events) {
      const history = await (await host.runById(started.id)).history();
      assert.deepEqual(history.map((event) => event.kind), run.events, run.workflow.name);
    }
  }
  await host.close();
}

const cases = readdirSync(CASES).filter((name) => name.endsWith(".json"));

test("the cases are found", () => assert.ok(cases.length >= 5, String(cases)));

for (const name of cases) {
  test(`${name} ends as it says`, async () => {
    await perform(read(readFileSync(path.join(CASES, name), "utf8")), mkdtempSync(path.join(tmpdir(), "opcell-case-")));
  });
}
