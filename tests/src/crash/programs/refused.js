// Is refused a tool that the session does not have, and a call that a person does not want.
const reasons = [];
await tools.put({ n: 1, luck: Math.random() });
try { await call("unknown", {}); } catch (error) { reasons.push(error.name); }
try { await tools.ask({ to: "eve", luck: Math.random() }); } catch (error) { reasons.push(error.reason); }
await tools.send({ to: "ann", luck: Math.random() });
return reasons;
