import { judge, plugin } from "../sdk/opcell.js";

const schema = { type: "object", properties: { text: { type: "string" } }, required: ["text"] };
const open = judge("gate/open", { summary: "Opens.", arguments: schema, outcomes: ["yes", "no"] }, () => "yes");

export const { operations, judges } = plugin({ judges: [open] });
