const before = performance.now();
await new Promise((resolve) => setTimeout(resolve, 3));
return { waited: performance.now() - before >= 3, year: new Date().getFullYear() >= 2025, zone: new Date().getTimezoneOffset() };
