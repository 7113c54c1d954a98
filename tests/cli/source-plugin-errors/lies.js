/** Runs, says its manifest. */
export function run() {}
