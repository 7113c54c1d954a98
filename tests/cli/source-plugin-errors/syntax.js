/** Runs. */
export function run() {
  return 1 +;
}
