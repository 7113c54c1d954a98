// The workflow in DBOS, run once for each POST.

import { createServer } from "node:http";
import { DBOS } from "@dbos-inc/dbos-sdk";

const [port, url] = process.argv.slice(2);
DBOS.setConfig({ name: "three-steps", systemDatabaseUrl: url, logLevel: "error", runAdminServer: false });

const benchmark = DBOS.registerWorkflow(
  async () => {
    const a = await DBOS.runStep(async () => 1, { name: "a" });
    const b = await DBOS.runStep(async () => 2, { name: "b" });
    const c = await DBOS.runStep(async () => 3, { name: "c" });
    return { a, b, c };
  },
  { name: "benchmark" },
);

await DBOS.launch();
createServer(async (request, response) => {
  try {
    const result = request.method === "POST" ? await (await DBOS.startWorkflow(benchmark)()).getResult() : {};
    response.setHeader("content-type", "application/json").end(JSON.stringify(result));
  } catch (error) {
    response.writeHead(500).end(String(error));
  }
}).listen(Number(port), "127.0.0.1");
