// The tools of an MCP server on standard input and output, as `cargo xtask bench --program-tokens` reads them:
// `node list.mjs COMMAND [ARGUMENT…] > FILE.json`.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

const [command, ...rest] = process.argv.slice(2);
if (command === undefined) throw new Error("node list.mjs COMMAND [ARGUMENT…]");
const server = spawn(command, rest, { stdio: ["pipe", "pipe", "inherit"] });
server.on("error", (error) => {
  throw error;
});
const send = (message) => server.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const clientInfo = { name: "opcell-bench", version: "0.1.0" };
send({ id: 1, method: "initialize", params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo } });
for await (const line of createInterface({ input: server.stdout })) {
  const { id, result, error } = JSON.parse(line);
  if (error !== undefined) throw new Error(error.message);
  if (id === 1) {
    send({ method: "notifications/initialized" });
    send({ id: 2, method: "tools/list", params: {} });
  } else if (id === 2) {
    console.log(JSON.stringify({ tools: result.tools }));
    break;
  }
}
server.kill();
