// DBOS: its library for TypeScript on PostgreSQL, behind a small server, since it has none of its own.

import { readFileSync } from "node:fs";
import { answers, freePort, post, start, stop } from "./process.mjs";

export const dbos = {
  name: "dbos",
  start: async ({ postgres }) => {
    const about = new URL("node_modules/@dbos-inc/dbos-sdk/package.json", import.meta.url);
    const { version } = JSON.parse(readFileSync(about, "utf8"));
    const { url } = await postgres.database("dbos");
    const port = await freePort();
    const server = start(process.execPath, [new URL("dbos-service.mjs", import.meta.url).pathname, String(port), url]);
    await answers(server, `http://127.0.0.1:${port}/`);
    return { version, run: () => post(`http://127.0.0.1:${port}/`, {}), stop: () => stop(server) };
  },
};
