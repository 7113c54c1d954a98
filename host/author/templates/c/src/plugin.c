/* An operation and a judge. `opcell plugin build` builds `dist/{{name}}.wasm` from them. */
#include "opcell.h"

static opcell_reply greet(opcell_text arguments, opcell_context context) {
  (void)context;
  opcell_text name = opcell_json_unquote(opcell_json_member(arguments, "name"));
  opcell_text greeting = opcell_concat("Hello, ", name.data, "!", (char *)0);
  return (opcell_reply){
      .data = opcell_concat("{\"greeting\":", opcell_json_string(greeting).data, "}", (char *)0),
  };
}

static bool contains(opcell_text text, const char *word) {
  for (size_t at = 0; at < text.length; at++) {
    size_t same = 0;
    while (word[same] && at + same < text.length && (text.data[at + same] | 32) == word[same]) same++;
    if (!word[same]) return true;
  }
  return false;
}

static opcell_verdict tone(opcell_text arguments, opcell_context context) {
  (void)context;
  opcell_text text = opcell_json_unquote(opcell_json_member(arguments, "text"));
  return (opcell_verdict){.outcome = contains(text, "please") ? OPCELL_TEXT("polite") : OPCELL_TEXT("rude")};
}

const opcell_operation opcell_operations[] = {
    {
        .id = "{{name}}/greet",
        .summary = "Greets a person by name.",
        .arguments_schema = "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"}},"
                            "\"required\":[\"name\"],\"additionalProperties\":false}",
        .data_schema = "{\"type\":\"object\",\"properties\":{\"greeting\":{\"type\":\"string\"}},\"required\":[\"greeting\"]}",
        .effects = OPCELL_PURE,
        .invoke = greet,
    },
    {0},
};

static const char *const tones[] = {"polite", "rude", 0};

const opcell_judge opcell_judges[] = {
    {
        .id = "{{name}}/tone",
        .summary = "Says whether a text is polite.",
        .arguments_schema = "{\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\"}},"
                            "\"required\":[\"text\"],\"additionalProperties\":false}",
        .outcomes = tones,
        .judge = tone,
    },
    {0},
};
