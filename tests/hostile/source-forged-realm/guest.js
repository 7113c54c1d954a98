/**
 * Forges.
 * @returns {{a: number}}
 */
export function run() {
  JSON.stringify = () => '{"b": "forged"}';
  Object.prototype.reason = "forged";
  Object.prototype.toJSON = () => "forged";
  Array.prototype[Symbol.iterator] = function* () {};
  Promise.prototype.then = (then) => then({ data: "{}" });
  return { a: 1 };
}
