"use strict";

// Schemas of zod.

const assert = require("node:assert/strict");
const path = require("node:path");
const { test } = require("node:test");
const { z } = require("zod");
const { Grant, Host, Plugin } = require("opcell");

test("a schema of zod checks arguments and gives its defaults", async (t) => {
  const shop = new Plugin("shop", path.join(process.env.OPCELL_REPOSITORY, "bindings/cases/shop.wasm"), {
    grants: [Grant.tool("shop.price")],
  });
  const schema = z.object({ article: z.number().int(), count: z.number().int().default(2) });
  const host = new Host({ plugins: [shop] });
  t.after(() => host.close());
  host.tool("shop.price", { description: "Returns a price.", schema }, ({ article, count }) => article * count);
  assert.equal(await host.call("test/run", { article: 7 }), 14);
  assert.equal((await host.invoke("test/run", { article: "seven" })).error.code, "invalid-arguments");
});
