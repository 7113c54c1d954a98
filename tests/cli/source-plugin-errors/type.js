/**
 * Runs.
 * @param {Date} when
 */
export function run(when) {}
