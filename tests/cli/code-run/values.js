console.log("read", input, [1, "two"]);
console.warn(new Map([[1, 2]]).size);
return { doubled: input.numbers.map((n) => n * 2), none: undefined, lone: "\ud800x" };
