await tools.counter_next({ name: "a" });
return "early";
