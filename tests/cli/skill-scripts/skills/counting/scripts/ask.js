import { files, tools } from "opcell";

/** Asks about bees. */
export function about() {
  return tools.call("test/run", { about: "bees" });
}

/** Tries to write and to leave. */
export function tries() {
  const attempt = (run) => {
    try {
      return run();
    } catch (error) {
      return error.message;
    }
  };
  return [
    attempt(() => files.write("skill", "x.txt", "x")),
    attempt(() => files.readText("skill", "../../opcell.toml")),
    attempt(() => files.readText("notes", "a.txt")),
    attempt(() => tools.call("http.fetch", { url: "https://example.com/" })),
  ];
}
