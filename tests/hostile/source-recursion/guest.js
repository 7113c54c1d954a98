/** Recurses. */
export function run() {
  return run();
}
