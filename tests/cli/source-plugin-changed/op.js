/**
 * Returns its version.
 * @returns {integer}
 */
export function version() {
  return 1;
}
