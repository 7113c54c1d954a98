"use strict";

// The types of the package, checked by TypeScript, and compared with what the package has.

const assert = require("node:assert/strict");
const { spawnSync } = require("node:child_process");
const path = require("node:path");
const { test } = require("node:test");

const PROJECT = path.join(__dirname, "..");
const OPTIONS = ["--noEmit", "--strict", "--target", "es2023", "--module", "nodenext", "--types", "node"];

function tsc(...args) {
  const command = [path.join(PROJECT, "node_modules/typescript/bin/tsc"), ...OPTIONS, ...args];
  const { status, stdout, stderr } = spawnSync(process.execPath, command, { cwd: PROJECT, encoding: "utf8" });
  return { status, said: stdout + stderr };
}

test("the declarations are sound", () => {
  const { status, said } = tsc("node_modules/opcell/index.d.ts");
  assert.equal(status, 0, said);
});

test("a program is checked against them", () => {
  const { status, said } = tsc("--skipLibCheck", "adapters/types.ts");
  assert.equal(status, 0, said);
});
