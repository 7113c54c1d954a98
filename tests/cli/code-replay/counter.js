import { files } from "opcell";

/**
 * Counts its calls in a file.
 *
 * @param {string} name
 * @returns {{count: integer}}
 */
export function next(name) {
  const count = Number(files.readText("counts", name)) + 1;
  files.write("counts", name, String(count));
  return { count };
}
