import { files, tools } from "opcell";

/**
 * Counts the words of a file of the skill.
 * @param {string} path The file.
 * @returns {integer}
 */
export function count(path) {
  return files.readText("skill", path).trim().split(/\s+/).length;
}
