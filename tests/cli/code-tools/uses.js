const first = await call("test/run", { about: "bees" });
const second = await tools.test_run({ about: "wasps" });
return { first, second, names: Object.keys(tools) };
