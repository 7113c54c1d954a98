// Echo in JavaScript: returns its arguments, as `example-operations/echo` does.
import { operation, plugin } from "../sdk/opcell.js";

const echo = operation(
  "echo/echo",
  { summary: "Returns its arguments as they are.", effects: "pure", arguments: { type: "object" }, data: { type: "object" } },
  (args) => args,
);

export const { operations, judges } = plugin({ operations: [echo] });
