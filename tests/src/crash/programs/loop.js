// Calls in a loop, draws lots, reads the clock, and sleeps.
const seen = [];
for (let n = 0; n < 3; n += 1) {
  const { n: doubled } = await tools.double({ n });
  await tools.put({ n: doubled, luck: Math.random() + Date.now() });
  seen.push(doubled);
}
await sleep(3);
await tools.send({ to: "ann", luck: Math.random() });
return seen;
