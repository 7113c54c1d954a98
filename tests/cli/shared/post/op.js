import { tools } from "opcell";

/**
 * Sends to all.
 * @param {string[]} to
 */
export async function send(to) {
  const sent = [];
  for (const name of to) sent.push(await tools.call("send", { to: name }));
  return sent;
}
