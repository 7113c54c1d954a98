// More than a cell may make, at once.
await Promise.allSettled(Array.from({ length: 20000 }, (_, i) => call("x", { i })));
