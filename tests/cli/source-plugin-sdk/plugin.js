// The main file of a plugin as `opcell plugin build` builds it: here it runs as it is.
import { judge, keyword, operation, plugin, skills, store, Success } from "../sdk/opcell.js";

const count = operation(
  "words/count",
  {
    summary: "Counts words, and calls.",
    effects: "idempotent",
    arguments: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
    data: { type: "object" },
  },
  async ({ text }, context) => {
    const calls = store.update("counts", "calls", (before) => `${Number(before ?? 0) + 1}`);
    const words = text.split(/\s+/).filter(Boolean).length;
    const bytes = new TextEncoder().encode(text).length;
    return new Success({ words, bytes, calls, attempt: context.attempt, skills: skills.list().length }, { summary: `${words} words` });
  },
);
const tone = judge(
  "words/tone",
  { summary: "Says whether a text is polite.", arguments: { type: "object" }, outcomes: ["rude", keyword("polite")] },
  ({ text }) => ({ outcome: text.includes("please") ? keyword("polite") : "rude", rationale: "it says so" }),
);

export const { operations, judges } = plugin({ operations: [count], judges: [tone] });
