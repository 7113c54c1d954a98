return "x".repeat(40000000).split("");
