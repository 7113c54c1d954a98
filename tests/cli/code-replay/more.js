for (const name of ["a", "a", "b", "c"]) await tools.counter_next({ name });
