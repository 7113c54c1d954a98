/** Runs. */
export function run() {}

export function other() {}
