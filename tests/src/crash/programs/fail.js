// Catches what fails, alone and among others, and fails in the end.
const reasons = [];
for (const n of [1, 2]) {
  try { await tools.fail({ n, luck: Math.random() }); } catch (error) { reasons.push(error.reason); }
}
const settled = await Promise.allSettled([tools.fail({ n: 3 }), tools.put({ n: 4 })]);
await tools.send({ to: "ann" });
throw new Error(`${reasons} ${settled.map(({ status }) => status)}`);
