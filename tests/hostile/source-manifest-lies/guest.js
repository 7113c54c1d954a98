import { tools } from "opcell";

/** Calls. */
export function run() {
  return tools.call("http.fetch", { url: "https://example.com/" });
}
