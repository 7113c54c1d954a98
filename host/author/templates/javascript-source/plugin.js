// A source plugin: each exported function is an operation, described by its comment. No build: `opcell` runs this file.
import { log } from "opcell";

/**
 * Greets a person by name.
 *
 * @param {string} name The person.
 * @returns {{greeting: string}}
 * @effects pure
 */
export function greet(name) {
  log.info(`greeting ${name}`);
  return { greeting: `Hello, ${name}!` };
}
