/**
 * Reminds the model of the house rule, once in a conversation.
 *
 * @param {string} step
 * @param {number} turn
 * @param {string} system
 * @param {{role: string, content: string}[]} earlier
 * @param {number} omitted
 * @param {{role: string, content: string}[]} messages
 * @returns {{add?: string}}
 * @effects pure
 */
export function remind(step, turn, system, earlier, omitted, messages) {
  return turn === 1 ? { add: "House rule: answer in one word." } : {};
}

/**
 * Refuses turns that hold a key.
 *
 * @param {string} step
 * @param {number} turn
 * @param {string} system
 * @param {{role: string, content: string}[]} earlier
 * @param {number} omitted
 * @param {{role: string, content: string}[]} messages
 * @returns {{refuse?: string}}
 * @effects idempotent
 */
export function check(step, turn, system, earlier, omitted, messages) {
  if (earlier.length !== 2 * (turn - 1)) throw new Error(`turn ${turn} came after ${earlier.length} messages`);
  const said = messages.map(({ content }) => content).join(" ");
  return said.includes("sk-") ? { refuse: "it holds a key" } : {};
}

/**
 * Changes something at each call.
 *
 * @param {string} step
 * @effects once
 */
export function count(step) {
  return {};
}

/**
 * Never ends.
 *
 * @param {string} step
 * @param {number} turn
 * @param {string} system
 * @param {{role: string, content: string}[]} earlier
 * @param {number} omitted
 * @param {{role: string, content: string}[]} messages
 * @effects pure
 */
export function stuck(step, turn, system, earlier, omitted, messages) {
  for (;;) {}
}

/**
 * Adds more than is sent.
 *
 * @param {string} step
 * @param {number} turn
 * @param {string} system
 * @param {{role: string, content: string}[]} earlier
 * @param {number} omitted
 * @param {{role: string, content: string}[]} messages
 * @returns {{add: string}}
 * @effects pure
 */
export function flood(step, turn, system, earlier, omitted, messages) {
  return { add: "x".repeat(1 << 20) };
}
