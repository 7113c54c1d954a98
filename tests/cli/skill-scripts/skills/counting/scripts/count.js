import { files, tools } from "opcell";

/**
 * Counts words in one of the skill's files.
 * @param {string} path The file.
 * @returns {integer}
 */
export function count(path) {
  return files.readText("skill", path).trim().split(/\s+/).length;
}
