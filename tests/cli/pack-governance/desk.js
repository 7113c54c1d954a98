/**
 * Looks an order up.
 *
 * @param {string} order
 * @returns {string}
 * @effects pure
 */
export function look(order) {
  return `${order} is packed`;
}

/**
 * Sends a parcel.
 *
 * @param {string} order
 * @returns {string}
 * @effects pure
 */
export function send(order) {
  return `${order} is on its way`;
}
