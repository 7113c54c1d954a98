await tools.counter_next({ name: "a" });
try { await tools.counter_next({ name: "z" }); } catch { /* It cannot be hidden. */ }
return "hidden";
