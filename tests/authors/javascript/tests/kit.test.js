import assert from "node:assert/strict";
import { test } from "node:test";
import { host } from "../sdk/testing.js";
import { files, store, tools, skills, log, Denied, Failure, operation } from "../sdk/opcell.js";
import * as plugin from "../src/plugin.js";

test("doubles serve what a host serves", async () => {
  assert.ok(plugin.operations.describe().length > 5);
  assert.throws(() => files.read("work", "a"), Denied);
  const served = host({
    tools: { weather: ({ city }) => ({ is: city }), bad: () => { throw new Failure("odd", "on purpose", { n: 1 }); } },
    skills: { manners: "Hi" }, files: { work: { a: "x".repeat(70000), "d/b": "bb" } }, stores: { notes: { k: "v" } },
  });
  assert.equal(files.readText("work", "a").length, 70000);
  assert.throws(() => files.read("work", "no"), { reason: "file-not-found" });
  assert.throws(() => files.read("work", "d"), { reason: "not-a-file" });
  assert.deepEqual(files.walk("work"), ["a", "d/b"]);
  files.write("work", "n", "new");
  assert.equal(served.file("work", "n"), "new");
  files.remove("work", "n");
  assert.equal(served.file("work", "n"), undefined);
  assert.deepEqual(tools.call("weather", { city: "Ulm" }), { is: "Ulm" });
  assert.throws(() => tools.call("bad"), { reason: "odd", details: { n: 1 } });
  assert.throws(() => tools.call("other"), { name: "Denied" });
  assert.equal(skills.read("manners"), "Hi");
  assert.equal(store.update("notes", "k", (seen) => `${seen}!`), "v!");
  assert.equal(store.update("notes", "n", (seen) => seen ?? "first"), "first");
  assert.equal(served.stored("notes", "k"), "v!");
  assert.ok(store.compareAndSet("notes", "k", 0n, "x").conflict);
  assert.deepEqual(store.list("notes"), { keys: ["k", "n"], more: false });
  log.info("one");
  assert.deepEqual(served.log, ["one"]);
  const later = operation("a/b", { summary: "Waits.", arguments: {}, data: {} }, async ({ n }) => n + 1);
  assert.equal(await later.run({ n: 1 }), 2);
});
