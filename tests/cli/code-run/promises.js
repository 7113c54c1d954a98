const order = [];
setTimeout(() => order.push("timer"), 0);
queueMicrotask(() => order.push("microtask"));
order.push("program");
await new Promise((resolve) => setTimeout(resolve, 2));
const all = await Promise.all([1, 2].map(async (n) => n * 2));
async function* numbers() {
  yield 1;
  yield 2;
}
for await (const n of numbers()) all.push(n);
return { order, all };
