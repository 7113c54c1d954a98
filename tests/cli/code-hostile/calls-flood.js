// A million calls that nothing awaits.
for (let i = 0; i < 1e6; i++) call("x", { i });
