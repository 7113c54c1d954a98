for (let i = 0; i < 20000; i += 1) console.log("x".repeat(100));
return 1;
