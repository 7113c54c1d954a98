// Calls several tools at once, also in functions that wait for one another.
const put = async (n) => { await tools.put({ n, luck: Math.random() }); return (await tools.double({ n })).n; };
const both = await Promise.all([put(1), put(2), tools.double({ n: 3 })]);
await Promise.race([tools.put({ n: 4 }), tools.put({ n: 5 })]);
await tools.send({ to: "ann", luck: Math.random() });
return [both[0], both[1], both[2].n];
