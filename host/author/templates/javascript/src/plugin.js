// An operation and a judge. `opcell plugin build` builds `dist/{{name}}.wasm` from them.
import { judge, operation, plugin } from "../sdk/opcell.js";

export const greet = operation(
  "{{name}}/greet",
  {
    summary: "Greets a person by name.",
    effects: "pure",
    arguments: {
      type: "object",
      properties: { name: { type: "string" } },
      required: ["name"],
      additionalProperties: false,
    },
    data: { type: "object", properties: { greeting: { type: "string" } }, required: ["greeting"] },
  },
  ({ name }) => ({ greeting: `Hello, ${name}!` }),
);

export const tone = judge(
  "{{name}}/tone",
  {
    summary: "Says whether a text is polite.",
    outcomes: ["polite", "rude"],
    arguments: {
      type: "object",
      properties: { text: { type: "string" } },
      required: ["text"],
      additionalProperties: false,
    },
  },
  ({ text }) => (text.toLowerCase().includes("please") ? "polite" : "rude"),
);

export const { operations, judges } = plugin({ operations: [greet], judges: [tone] });
