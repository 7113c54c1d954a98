import { files, Failure, log, tools } from "opcell";

/** @typedef {{line: number, marker: string}} Found */

/**
 * Finds markers in a text.
 *
 * @param {string} text The text.
 * @param {string[]} [markers] Words to find.
 * @returns {Found[]}
 * @effects pure
 */
export function findMarkers(text, markers = ["TODO"]) {
  const found = [];
  text.split("\n").forEach((line, at) => {
    for (const marker of markers) if (line.includes(marker)) found.push({ line: at + 1, marker });
  });
  log.info(`${found.length} found`);
  return found;
}

/**
 * Asks about a topic.
 * @param {string} about
 */
export async function ask(about) {
  const answer = await tools.call("test/run", { about });
  return { answer };
}

/**
 * Reads a file of the root `notes`.
 * @param {string} path
 * @returns {string}
 */
export const note = (path) => files.readText("notes", path);

/**
 * Fails.
 * @param {"typed" | "thrown"} how
 */
export function fail(how) {
  if (how === "typed") throw new Failure("no-luck", "there was none", { left: 0 });
  return undefinedName;
}
