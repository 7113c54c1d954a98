// Opcell's server: three operations in JavaScript that may run once, each in a cell of its own. The journal has each
// call before it is made.

import { execFileSync } from "node:child_process";
import { copyFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { answers, folder, freePort, post, start, stop } from "./process.mjs";

export const opcellOnSqlite = { name: "opcell, SQLite", start: ({ opcell }) => serve(opcell) };

export const opcellOnPostgres = {
  name: "opcell, PostgreSQL",
  start: async ({ opcell, postgres }) => serve(opcell, (await postgres.database("opcell")).url),
};

async function serve(opcell, url) {
  const at = folder("opcell");
  for (const file of ["steps.js", "three-steps.md"]) {
    copyFileSync(fileURLToPath(new URL(file, import.meta.url)), join(at, file));
  }
  writeFileSync(join(at, "opcell.toml"), 'workflows = ["."]\n[plugins.steps]\npath = "steps.js"\n');
  const env = { PATH: process.env.PATH, HOME: at };
  const version = execFileSync(opcell, ["--version"], { encoding: "utf8" }).trim().split(" ").at(1);
  const port = await freePort();
  const server = start(opcell, ["serve", "--listen", `127.0.0.1:${port}`, `--journal=${url ?? "runs.db"}`], { cwd: at, env });
  const address = `http://127.0.0.1:${port}`;
  await answers(server, `${address}/ready`);
  return {
    version,
    run: async () => (await post(`${address}/v1/default/runs`, { workflow: "three-steps", wait: true })).result,
    stop: () => stop(server),
  };
}
