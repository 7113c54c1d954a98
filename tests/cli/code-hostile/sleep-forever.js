// A timer that is too long is an exception, and one that nothing awaits keeps no program.
sleep(1e6);
try { await sleep(1e15); } catch (error) { return error.reason; }
