/**
 * Lets a case be closed once its note says so.
 *
 * @param {string} workflow
 * @param {string} from
 * @param {string} event
 * @param {string} to
 * @param {string} context
 * @param {string} by
 * @param {object} artifacts
 * @returns {string}
 * @effects pure
 */
export function mayMove(workflow, from, event, to, context, by, artifacts) {
  return event === "Close" && artifacts.note !== "checked" ? "refuse" : "allow";
}
