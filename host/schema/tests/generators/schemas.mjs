// Prints the tools that servers of the official SDKs list for types of zod 3, zod 4 and valibot: one JSON object by
// server, then by tool: `inputSchema`, and where there is one `outputSchema`.
import { McpServer as ServerV1 } from "@modelcontextprotocol/sdk/server/mcp.js";
import { McpServer as ServerV2 } from "@modelcontextprotocol/server";
import { toJsonSchema, toStandardJsonSchema } from "@valibot/to-json-schema";
import { zodToJsonSchema } from "zod-to-json-schema";
import * as v from "valibot";
import * as z4 from "zod";
import * as z40 from "zod40";
import * as z3 from "zod3";

// What zod 3 and zod 4 have in common, and what is in one of them only; a type that a version lacks is left out.
const zod = (z) => {
  const types = {
    email: () => z.string().email(), url: () => z.string().url(), uuid: () => z.string().uuid(),
    emoji: () => z.string().emoji(), ip: () => z.string().ip(), cidr: () => z.string().cidr(),
    datetime: () => z.string().datetime(), date: () => z.string().date(), time: () => z.string().time(),
    duration: () => z.string().duration(), base64: () => z.string().base64(), nanoid: () => z.string().nanoid(),
    cuid2: () => z.string().cuid2(), ulid: () => z.string().ulid(), jwt: () => z.string().jwt(),
    iso_duration: () => z.iso.duration(), iso_datetime: () => z.iso.datetime({ offset: true, local: true }),
    hostname: () => z.hostname(), ipv4: () => z.ipv4(), ipv6: () => z.ipv6(), cidrv6: () => z.cidrv6(),
    e164: () => z.e164(), mac: () => z.mac(), guid: () => z.guid(), base64url: () => z.base64url(),
    strict_email: () => z.email({ pattern: z.regexes.rfc5322Email }),
    unicode_email: () => z.email({ pattern: z.regexes.unicodeEmail }),
    looks_ahead: () => z.string().regex(/^(?=.*\d)(?=.*[a-z]).{8,}$/),
    looks_behind: () => z.string().regex(/(?<!\$)\b\d+/), refers_back: () => z.string().regex(/^(["']).*\1$/),
    regex: () => z.string().regex(/^[a-z][\w-]*$/i), unicode: () => z.string().regex(/^\p{L}+$/u),
    starts: () => z.string().startsWith("a.b").endsWith("$").includes("("), length: () => z.string().min(1).max(5),
    template: () => z.templateLiteral(["id-", z.number(), z.enum(["a", "b"])]),
    int: () => z.number().int(), int32: () => z.int32(), uint32: () => z.uint32(), float32: () => z.float32(),
    positive: () => z.number().positive(), between: () => z.number().gt(0).lt(10), step: () => z.number().multipleOf(0.05),
    coerced: () => z.coerce.number(), boolish: () => z.stringbool(), flag: () => z.boolean().default(false),
    nothing: () => z.null(), anything: () => z.any(), unknown: () => z.unknown(), literal: () => z.literal("x"),
    literals: () => z.literal([1, "a", null]), enumeration: () => z.enum(["a", "b"]),
    native: () => z.nativeEnum({ A: 1, B: "b" }), optional: () => z.string().optional(),
    nullable: () => z.string().nullable(), nullish: () => z.number().nullish(), default: () => z.string().default("d"),
    prefault: () => z.string().prefault("d"), caught: () => z.string().catch("c"), readonly: () => z.array(z.string()).readonly(),
    tuple: () => z.tuple([z.number(), z.number()]), rest: () => z.tuple([z.string()]).rest(z.number()),
    empty_tuple: () => z.tuple([]), optional_tuple: () => z.tuple([z.string(), z.number().optional()]),
    list: () => z.array(z.string()).min(1).max(3), nonempty: () => z.array(z.number()).nonempty(),
    record: () => z.record(z.string(), z.number()), keyed: () => z.record(z.enum(["a", "b"]), z.number()),
    partial: () => z.partialRecord(z.enum(["a", "b"]), z.string()),
    patterned: () => z.record(z.string().regex(/^(?!_)\w+$/), z.string()), object: () => z.object({ a: z.string(), b: z.number().optional() }),
    strict: () => z.object({ a: z.string() }).strict(), loose: () => z.object({ a: z.string() }).passthrough(),
    catchall: () => z.object({ a: z.string() }).catchall(z.number()), union: () => z.union([z.string(), z.number()]),
    discriminated: () => z.discriminatedUnion("k", [z.object({ k: z.literal("a"), n: z.number() }), z.object({ k: z.literal("b") })]),
    both: () => z.intersection(z.object({ a: z.string() }), z.object({ b: z.number() })),
    piped: () => z.string().transform((text) => text.length).pipe(z.number()), refined: () => z.string().refine((text) => text !== "x"),
    branded: () => z.string().brand("B"), described: () => z.string().describe("a text"),
    json: () => z.json(), lazy: () => {
      const tree = z.lazy(() => z.object({ name: z.string(), kids: z.array(tree) }));
      return tree;
    },
    getter: () => {
      const node = z.object({ value: z.string(), get next() { return node.nullable(); } });
      return node;
    },
    shared: () => {
      const point = z.object({ x: z.number(), y: z.number() });
      return z.object({ from: point, to: point, by: z.array(point) });
    },
    named: () => z.object({ v: z.string() }).meta({ id: "Named<T, U>", title: "Named" }),
  };
  const made = {};
  for (const [name, type] of Object.entries(types)) {
    try { made[name] = type(); } catch { /* this version has no such type */ }
  }
  return made;
};

const valibot = {
  email: v.pipe(v.string(), v.email()), url: v.pipe(v.string(), v.url()), uuid: v.pipe(v.string(), v.uuid()),
  regex: v.pipe(v.string(), v.regex(/^(?!x)\w+$/)), hex: v.pipe(v.string(), v.hexColor()), emoji: v.pipe(v.string(), v.emoji()),
  date: v.pipe(v.string(), v.isoDate()), ipv6: v.pipe(v.string(), v.ipv6()), mac: v.pipe(v.string(), v.mac()),
  integer: v.pipe(v.number(), v.integer(), v.minValue(0)), above: v.pipe(v.number(), v.gtValue(0)),
  step: v.pipe(v.number(), v.multipleOf(5)), tuple: v.tuple([v.number(), v.string()]),
  strict_tuple: v.strictTuple([v.number()]), loose_tuple: v.looseTuple([v.number()]), rest: v.tupleWithRest([v.string()], v.number()),
  record: v.record(v.string(), v.number()), object: v.object({ a: v.string(), b: v.optional(v.number(), 5) }),
  strict: v.strictObject({ a: v.string() }), loose: v.looseObject({ a: v.string() }), with_rest: v.objectWithRest({ a: v.string() }, v.number()),
  union: v.union([v.string(), v.number()]), variant: v.variant("k", [v.object({ k: v.literal("a") }), v.object({ k: v.literal("b") })]),
  picked: v.picklist(["a", "b"]), nullable: v.nullable(v.string()), nullish: v.nullish(v.string()),
  both: v.intersect([v.object({ a: v.string() }), v.object({ b: v.number() })]), anything: v.any(), nothing: v.null(),
  list: v.pipe(v.array(v.string()), v.minLength(1), v.maxLength(3)), literal: v.literal("x"), enumeration: v.enum({ A: "a", B: "b" }),
  lazy: (() => {
    const tree = v.object({ name: v.string(), kids: v.array(v.lazy(() => tree)) });
    return tree;
  })(),
};

// What a server answers to `tools/list`, over a transport that keeps the answers.
async function list(server) {
  const answers = new Map();
  const transport = {
    start: async () => {}, close: async () => {},
    send: async (message) => void answers.get(message.id)?.(message.result ?? message),
  };
  await (server.server ?? server).connect(transport);
  const ask = (id, method, params) => new Promise((resolve) => {
    answers.set(id, resolve);
    transport.onmessage({ jsonrpc: "2.0", id, method, params });
  });
  const client = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "c", version: "1" } };
  await ask(1, "initialize", client);
  transport.onmessage({ jsonrpc: "2.0", method: "notifications/initialized" });
  const answer = await ask(2, "tools/list", {});
  if (!answer.tools) throw new Error(JSON.stringify(answer));
  return answer.tools;
}

const call = async () => ({ content: [] });
const all = {};
// One server for each type: a type that an SDK cannot describe spoils its listing, and is left out.
async function tools(label, types, register) {
  all[label] = {};
  for (const [name, type] of Object.entries(types)) {
    try {
      const [tool] = await list(register(name, type));
      all[label][name] = { inputSchema: tool.inputSchema, outputSchema: tool.outputSchema };
    } catch (error) {
      process.stderr.write(`${label} ${name}: ${error.message.slice(0, 100)}\n`);
    }
  }
}
const v1 = (name, type) => {
  const server = new ServerV1({ name: "s", version: "1" });
  server.registerTool(name, { inputSchema: { at: type }, outputSchema: { at: type } }, call);
  return server;
};
const v2 = (object) => (name, type) => {
  const server = new ServerV2({ name: "s", version: "1" });
  server.registerTool(name, { inputSchema: object(type), outputSchema: object(type) }, call);
  return server;
};
await tools("sdk 1, zod 3", zod(z3), v1);
await tools("sdk 1, zod 4", zod(z4), v1);
await tools("sdk 1, zod 4.0", zod(z40), v1);
await tools("sdk 2, zod 4", zod(z4), v2((type) => z4.object({ at: type })));
await tools("sdk 2, zod 4.0", zod(z40), v2((type) => z40.object({ at: type })));
await tools("sdk 2, valibot", valibot, v2((type) => toStandardJsonSchema(v.object({ at: type }))));

// Written by hand into a listing, as many servers do.
function written(label, types, schema) {
  all[label] = {};
  for (const [name, type] of Object.entries(types)) {
    try { all[label][name] = { inputSchema: schema(type) }; } catch { /* it has no form there */ }
  }
}
for (const target of ["draft-2020-12", "draft-7", "draft-4", "openapi-3.0"]) {
  for (const reused of ["inline", "ref"]) {
    written(`zod 4 ${target} ${reused}`, zod(z4), (type) => z4.toJSONSchema(z4.object({ at: type }), { target, reused, unrepresentable: "any" }));
  }
}
for (const target of ["jsonSchema7", "jsonSchema2019-09", "openApi3"]) {
  written(`zod 3 ${target}`, zod(z3), (type) => zodToJsonSchema(z3.object({ at: type }), { target }));
}
for (const target of ["draft-07", "draft-2020-12", "openapi-3.0"]) {
  written(`valibot ${target}`, valibot, (type) => toJsonSchema(v.object({ at: type }), { target, errorMode: "ignore" }));
}
process.stdout.write(JSON.stringify(all));
