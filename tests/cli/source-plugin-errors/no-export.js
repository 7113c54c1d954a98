/** Runs. */
function run() {}
