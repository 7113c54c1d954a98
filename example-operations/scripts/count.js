export const operations = {
  describe() {
    return [{
      id: "script/count", summary: "Counts the words of a text",
      argumentsSchema: JSON.stringify({ type: "object", properties: { text: { type: "string" } }, required: ["text"], additionalProperties: false }),
      dataSchema: JSON.stringify({ type: "object", properties: { words: { type: "integer" } }, required: ["words"] }),
      effects: "pure",
    }];
  },
  invoke(id, args, context) {
    const { text } = JSON.parse(args);
    return { data: JSON.stringify({ words: text.split(/\s+/).filter(Boolean).length }), summary: undefined, details: undefined };
  },
};
