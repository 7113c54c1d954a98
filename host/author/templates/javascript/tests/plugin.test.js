// Unit tests, run by `npm test`. `host` of the same module gives doubles of tools, skills, files and stores.
import assert from "node:assert/strict";
import { test } from "node:test";
import { host } from "../sdk/testing.js";
import { greet, tone } from "../src/plugin.js";

test("a person is greeted by name", async () => {
  host({});
  assert.deepEqual(await greet.run({ name: "Ada" }), { greeting: "Hello, Ada!" });
  assert.equal(await tone.decide({ text: "Would you close the door, please?" }), "polite");
});
