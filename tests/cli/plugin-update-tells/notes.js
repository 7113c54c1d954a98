/**
 * Lists the notes.
 *
 * @returns {string[]}
 * @effects pure
 */
export function list() {
  return [];
}
