const a = null;
a.b = 1;
/** Runs. */
export function run() {}
