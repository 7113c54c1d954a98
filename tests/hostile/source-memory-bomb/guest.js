/** Fills the memory. */
export function run() {
  const held = [];
  for (;;) held.push(new Uint8Array(1 << 20).fill(1));
}
