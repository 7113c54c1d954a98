// Asks a person: about one call, and about two at once beside a third that needs no one.
await tools.put({ n: 1, luck: Math.random() });
await tools.ask({ to: "ann", luck: Math.random() });
await Promise.all([tools.ask({ to: "bob", luck: Math.random() }), tools.put({ n: 2 }), tools.double({ n: 3 })]);
return "asked";
