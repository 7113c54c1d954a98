/* The plugin that all SDKs are held to, in C. */
#include "opcell.h"

static opcell_text text_of(opcell_text arguments, const char *name) {
  return opcell_json_unquote(opcell_json_member(arguments, name));
}

/* {"name":json} */
static opcell_text object(const char *name, opcell_text json) {
  return opcell_concat("{\"", name, "\":", json.data, "}", (char *)0);
}

static opcell_text number(uint32_t value) {
  char digits[11], *at = digits + 10;
  *at = 0;
  do *--at = (char)('0' + value % 10);
  while (value /= 10);
  return opcell_concat(at, (char *)0);
}

static opcell_reply echo(opcell_text arguments, opcell_context context) {
  (void)context;
  return (opcell_reply){.data = object("value", opcell_json_member(arguments, "value")),
                        .summary = OPCELL_TEXT("echoed"),
                        .details = OPCELL_TEXT("{\"language\":\"any\"}")};
}

static opcell_reply read(opcell_text arguments, opcell_context context) {
  (void)context;
  opcell_answer answer = opcell_read_file(text_of(arguments, "root").data, text_of(arguments, "path").data);
  if (!answer.value.data) return opcell_fail_with(answer);
  return (opcell_reply){.data = object("text", opcell_json_string(answer.value))};
}

static opcell_reply write(opcell_text arguments, opcell_context context) {
  (void)context;
  opcell_text text = text_of(arguments, "text");
  opcell_answer answer = opcell_write_file(text_of(arguments, "root").data, text_of(arguments, "path").data, text);
  if (!answer.value.data) return opcell_fail_with(answer);
  return (opcell_reply){.data = object("written", number((uint32_t)text.length))};
}

static opcell_reply list(opcell_text arguments, opcell_context context) {
  (void)context;
  static const char *const kinds[] = {"file", "directory", "other"};
  const char *root = text_of(arguments, "root").data, *path = text_of(arguments, "path").data;
  opcell_entries found = opcell_list_files(root, path);
  if (found.failed) return opcell_fail_with(found.error);
  opcell_text all = OPCELL_TEXT("");
  uint32_t bytes = 0;
  for (size_t i = 0; i < found.count; i++) {
    const opcell_entry *entry = &found.entries[i];
    all = opcell_concat(all.data, i ? "," : "", "{\"name\":", opcell_json_string(entry->name).data, ",\"kind\":\"",
                        kinds[entry->kind], "\",\"size\":", number((uint32_t)entry->size).data, "}", (char *)0);
    const char *inner = path[0] ? opcell_concat(path, "/", entry->name.data, (char *)0).data : entry->name.data;
    for (int time = 0; entry->kind == OPCELL_FILE && time < 20; time++) {
      opcell_answer answer = opcell_read_file(root, inner);
      if (!answer.value.data) return opcell_fail_with(answer);
      bytes += (uint32_t)answer.value.length;
    }
  }
  return (opcell_reply){
      .data = opcell_concat("{\"entries\":[", all.data, "],\"bytes\":", number(bytes).data, "}", (char *)0)};
}

static opcell_reply tool(opcell_text arguments, opcell_context context) {
  (void)context;
  opcell_answer answer = opcell_tool(text_of(arguments, "name").data, opcell_json_member(arguments, "input"));
  if (answer.value.data) return (opcell_reply){.data = object("answer", answer.value)};
  if (answer.denied.capability.data)
    return (opcell_reply){.data = object("denied", opcell_json_string(answer.denied.capability))};
  return opcell_fail_with(answer);
}

static opcell_reply skill(opcell_text arguments, opcell_context context) {
  (void)context;
  opcell_answer answer = opcell_skill(text_of(arguments, "name").data);
  if (!answer.value.data) return opcell_fail_with(answer);
  return (opcell_reply){.data = object("body", opcell_json_string(answer.value))};
}

static const char *truth(bool value) { return value ? "true" : "false"; }

/* ["a","b"] */
static opcell_text keys_of(opcell_keys list) {
  opcell_text all = OPCELL_TEXT("[");
  for (size_t i = 0; i < list.count; i++)
    all = opcell_concat(all.data, i ? "," : "", opcell_json_string(list.keys[i]).data, (char *)0);
  return opcell_concat(all.data, "]", (char *)0);
}

static opcell_reply keep(opcell_text arguments, opcell_context context) {
  (void)context;
  const char *store = text_of(arguments, "name").data;
  opcell_text key = text_of(arguments, "key"), value = text_of(arguments, "value");
  opcell_stored before = opcell_store_get(store, key);
  if (before.failed) return opcell_fail_with(before.error);
  opcell_stored set = opcell_store_set(store, key, value);
  if (set.failed) return opcell_fail_with(set.error);
  opcell_stored conflict = opcell_store_swap(store, key, 0, OPCELL_TEXT("other"));
  opcell_stored swapped = opcell_store_swap(store, key, &set.version, opcell_concat(value.data, "!", (char *)0));
  opcell_store_set(store, OPCELL_TEXT("zz"), OPCELL_TEXT(""));
  opcell_keys first = opcell_store_list(store, OPCELL_TEXT(""), OPCELL_NONE, 1);
  opcell_keys rest = opcell_store_list(store, OPCELL_TEXT(""), key, 1000);
  opcell_stored kept = opcell_store_get(store, key);
  bool deleted = opcell_store_delete(store, key).found, again = opcell_store_delete(store, key).found;
  return (opcell_reply){
      .data = opcell_concat("{\"before\":", truth(before.found), ",\"conflict\":",
                            opcell_json_string(conflict.stored ? OPCELL_TEXT("none") : conflict.value).data, ",\"swapped\":",
                            truth(swapped.stored), ",\"first\":", keys_of(first).data, ",\"more\":", truth(first.more),
                            ",\"rest\":", keys_of(rest).data, ",\"kept\":", opcell_json_string(kept.value).data,
                            ",\"deleted\":[", truth(deleted), ",", truth(again), "]}", (char *)0),
  };
}

static opcell_reply note(opcell_text arguments, opcell_context context) {
  (void)context;
  opcell_text text = text_of(arguments, "text");
  opcell_log(OPCELL_INFO, opcell_concat("first ", text.data, (char *)0));
  opcell_log(OPCELL_WARN, opcell_concat("second ", text.data, (char *)0));
  opcell_progress(1, 2, OPCELL_TEXT("half"));
  return (opcell_reply){.data = OPCELL_TEXT("{}")};
}

static opcell_reply fail(opcell_text arguments, opcell_context context) {
  (void)context;
  opcell_reply reply = opcell_fail(text_of(arguments, "reason").data, "on purpose");
  reply.failure.details = OPCELL_TEXT("{\"why\":[1,2]}");
  return reply;
}

static opcell_reply panic(opcell_text arguments, opcell_context context) {
  (void)context;
  opcell_panic(text_of(arguments, "message").data);
}

static opcell_reply where(opcell_text arguments, opcell_context context) {
  (void)arguments;
  return (opcell_reply){
      .data = opcell_concat("{\"run\":", opcell_json_string(context.run).data, ",\"step\":", opcell_json_string(context.step).data,
                            ",\"visit\":", number(context.visit).data, ",\"attempt\":", number(context.attempt).data,
                            ",\"key\":", opcell_json_string(context.idempotency_key).data, "}", (char *)0),
  };
}

static bool polite(opcell_text text) {
  static const char word[] = "please";
  for (size_t at = 0; at < text.length; at++) {
    size_t same = 0;
    while (word[same] && at + same < text.length && (text.data[at + same] | 32) == word[same]) same++;
    if (!word[same]) return true;
  }
  return false;
}

static opcell_verdict tone(opcell_text arguments, opcell_context context) {
  (void)context;
  opcell_text text = text_of(arguments, "text");
  if (!text.length) return (opcell_verdict){.outcome = OPCELL_TEXT("silent"), .is_keyword = true};
  if (polite(text)) return (opcell_verdict){.outcome = OPCELL_TEXT("polite"), .rationale = OPCELL_TEXT("it says please")};
  return (opcell_verdict){.outcome = OPCELL_TEXT("rude")};
}

#define TEXT(name) "\"" name "\":{\"type\":\"string\"}"
#define OBJECT(properties, required) \
  "{\"type\":\"object\",\"properties\":{" properties "},\"required\":[" required "],\"additionalProperties\":false}"
#define ANY "{\"type\":\"object\"}"

const opcell_operation opcell_operations[] = {
    {"kit/echo", "Returns its argument.", OBJECT("\"value\":true", "\"value\""), ANY, OPCELL_PURE, echo},
    {"kit/read", "Reads a file.", OBJECT(TEXT("root") "," TEXT("path"), "\"root\",\"path\""), ANY, OPCELL_PURE, read},
    {"kit/write", "Writes a file.", OBJECT(TEXT("root") "," TEXT("path") "," TEXT("text"), "\"root\",\"path\",\"text\""), ANY,
     OPCELL_IDEMPOTENT, write},
    {"kit/list", "Lists a directory, and reads each file in it 20 times.",
     OBJECT(TEXT("root") "," TEXT("path"), "\"root\",\"path\""), ANY, OPCELL_PURE, list},
    {"kit/tool", "Calls a tool; a refusal is a value.",
     OBJECT(TEXT("name") ",\"input\":{\"type\":\"object\"}", "\"name\",\"input\""), ANY, OPCELL_ONCE, tool},
    {"kit/skill", "Reads a skill.", OBJECT(TEXT("name"), "\"name\""), ANY, OPCELL_PURE, skill},
    {"kit/keep", "Keeps a value, and goes through all that a store can do.",
     OBJECT(TEXT("name") "," TEXT("key") "," TEXT("value"), "\"name\",\"key\",\"value\""), ANY, OPCELL_IDEMPOTENT, keep},
    {"kit/note", "Logs two lines and its progress.", OBJECT(TEXT("text"), "\"text\""), ANY, OPCELL_PURE, note},
    {"kit/fail", "Fails on purpose.", OBJECT(TEXT("reason"), "\"reason\""), ANY, OPCELL_PURE, fail},
    {"kit/panic", "Panics.", OBJECT(TEXT("message"), "\"message\""), ANY, OPCELL_PURE, panic},
    {"kit/where", "Says where in a run it is called.", OBJECT("", ""), ANY, OPCELL_PURE, where},
    {0},
};

static const char *const tones[] = {"polite", "rude", ":silent", 0};

const opcell_judge opcell_judges[] = {
    {"kit/tone", "Says whether a text is polite.", OBJECT(TEXT("text"), "\"text\""), tones, tone},
    {0},
};
