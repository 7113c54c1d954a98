// The workflow, served for Restate at the port that is given.

import * as restate from "@restatedev/restate-sdk";

// The SDK needs it, and Node.js has it from version 22 on.
Promise.withResolvers ??= () => {
  const made = {};
  made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }));
  return made;
};

const benchmark = restate.workflow({
  name: "benchmark",
  handlers: {
    run: async (ctx) => {
      const a = await ctx.run("a", async () => 1);
      const b = await ctx.run("b", async () => 2);
      const c = await ctx.run("c", async () => 3);
      return { a, b, c };
    },
  },
});

await restate.serve({ services: [benchmark], port: Number(process.argv[2]) });
