// Another version of the program: the same calls, and more of their answers.
const luck = Math.random();
await Promise.all([1, 2].map(() => tools.counter_next({ name: "a" })));
await tools.counter_next({ name: "b" });
return { luck };
