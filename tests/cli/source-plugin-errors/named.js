/** Runs under another name. */
export function run() {}
