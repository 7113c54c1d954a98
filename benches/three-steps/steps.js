/**
 * Returns one.
 *
 * @returns {integer}
 */
export function a() {
  return 1;
}

/**
 * Returns two.
 *
 * @returns {integer}
 */
export function b() {
  return 2;
}

/**
 * Returns three.
 *
 * @returns {integer}
 */
export function c() {
  return 3;
}
