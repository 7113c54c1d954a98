// Restate: its server from npm with its defaults, and a workflow in its SDK for TypeScript in a process of its own.

import { createRequire } from "node:module";
import { join } from "node:path";
import { answers, folder, freePort, post, start, stop } from "./process.mjs";

const require = createRequire(import.meta.url);

export const restate = {
  name: "restate",
  start: async () => {
    const about = require.resolve("@restatedev/restate-server-linux-x64/package.json");
    const [admin, ingress, node, service] = [await freePort(), await freePort(), await freePort(), await freePort()];
    const at = folder("restate");
    const server = start(join(about, "../bin/restate-server"), ["--node-name=bench", "--base-dir", at, "--listen-mode=tcp"], {
      cwd: at,
      env: {
        ...process.env,
        RESTATE_ADMIN__BIND_ADDRESS: `127.0.0.1:${admin}`,
        RESTATE_INGRESS__BIND_ADDRESS: `127.0.0.1:${ingress}`,
        RESTATE_BIND_ADDRESS: `127.0.0.1:${node}`,
        RESTATE_DISABLE_TELEMETRY: "true",
      },
    });
    const app = start(process.execPath, [new URL("restate-service.mjs", import.meta.url).pathname, String(service)]);
    await answers(server, `http://127.0.0.1:${admin}/health`);
    await answers(server, `http://127.0.0.1:${ingress}/restate/health`);
    // The service speaks HTTP/2, which this client does not: the server tries until it answers.
    for (let tried = 0; ; tried += 1) {
      try {
        await post(`http://127.0.0.1:${admin}/deployments`, { uri: `http://127.0.0.1:${service}` });
        break;
      } catch (error) {
        if (tried > 100 || app.ended) throw new Error(`${error.message} ${app.said}`);
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    }
    return {
      version: require(about).version,
      run: () => post(`http://127.0.0.1:${ingress}/benchmark/${crypto.randomUUID()}/run`, {}),
      stop: async () => {
        await stop(app);
        await stop(server);
      },
    };
  },
};
