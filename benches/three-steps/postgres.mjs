// A PostgreSQL of the harness's own, for the systems that keep their runs in one.

import { execFileSync } from "node:child_process";
import { chownSync, existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { folder, freePort, start, stop } from "./process.mjs";

/** One server with its distribution's settings, started when a system first asks for it. */
export class Postgres {
  #started;

  /** Creates a database; returns its URL. */
  async database(name) {
    this.#started ??= this.#start();
    const { server, port, bin, as } = await this.#started;
    execFileSync(join(bin, "createdb"), ["--host=127.0.0.1", `--port=${port}`, "--username=postgres", name], {
      ...as,
      stdio: "pipe",
    });
    return { url: `postgres://postgres@127.0.0.1:${port}/${name}`, server };
  }

  async stop() {
    const started = await this.#started?.catch(() => undefined);
    // Ends its clients' connections, and waits for none.
    if (started) await stop(started.server, "SIGINT");
  }

  async #start() {
    const bin = programs();
    const at = folder("postgres");
    // It refuses to be started by root.
    let as = {};
    if (process.getuid() === 0) {
      const [uid, gid] = ["-u", "-g"].map((flag) => Number(execFileSync("id", [flag, "postgres"])));
      chownSync(at, uid, gid);
      as = { uid, gid };
    }
    as.cwd = at;
    const data = join(at, "data");
    execFileSync(join(bin, "initdb"), ["--auth=trust", "--username=postgres", "--encoding=UTF8", data], { ...as, stdio: "pipe" });
    const port = await freePort();
    const words = ["-D", data, "-p", String(port), "-c", "listen_addresses=127.0.0.1", "-k", at];
    const server = start(join(bin, "postgres"), words, as);
    for (let tried = 0; ; tried += 1) {
      if (server.ended || tried > 200) throw new Error(`PostgreSQL does not start: ${server.said}`);
      try {
        execFileSync(join(bin, "pg_isready"), ["--host=127.0.0.1", `--port=${port}`], { stdio: "pipe" });
        return { server, port, bin, as };
      } catch {
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    }
  }
}

// Debian keeps the server's programs out of the path.
function programs() {
  const root = "/usr/lib/postgresql";
  const versions = existsSync(root) ? readdirSync(root).sort((a, b) => Number(b) - Number(a)) : [];
  const folders = [...versions.map((version) => join(root, version, "bin")), ...(process.env.PATH ?? "").split(":")];
  const found = folders.find((at) => existsSync(join(at, "initdb")) && existsSync(join(at, "postgres")));
  if (!found) throw new Error("PostgreSQL is missing: sudo apt-get install postgresql");
  return found;
}
