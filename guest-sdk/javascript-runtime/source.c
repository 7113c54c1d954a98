/* A source plugin: the module in the bundle, on the same engine as programs. Its description is what the module says when
 * it is evaluated, so each call evaluates it, in a cell of its own. */
#include "source.h"
#include "bundle.h"
#include "engine.h"
#include "host.h"

#include <string.h>

extern unsigned char __heap_base;

volatile struct bundle bundle = {"opcell-bundle-v1", (const char *)&__heap_base, UINT32_MAX, 0, UINT32_MAX};

/* The names that source.js exports to the plugin. */
static const char *const NAMES[] = {"Denied", "Failure", "Success",   "files", "judge",  "keyword",
                                    "log",    "operation", "plugin", "skills", "store", "tools"};
enum { NAME_COUNT = sizeof NAMES / sizeof *NAMES };

static JSValue sdk;
/* What `load` of source.js returned. */
static JSValue offered;
static const char *file;
static opcell_text called;

/* ---- answers of the host ---- */

static void set(JSValue object, const char *name, opcell_text text) {
  if (text.data) JS_SetPropertyStr(js, object, name, text_value(text));
}

/* `{ value }`, `{ denied }` or `{ failed }`. */
static JSValue answer_of(const opcell_answer *answer, JSValue value) {
  JSValue made = JS_NewObjectProto(js, JS_NULL);
  if (answer && answer->denied.rule.data) {
    JSValue denied = JS_NewObjectProto(js, JS_NULL);
    set(denied, "capability", answer->denied.capability);
    set(denied, "rule", answer->denied.rule);
    set(denied, "remedy", answer->denied.remedy);
    JS_SetPropertyStr(js, made, "denied", denied);
  } else if (answer && answer->failed.reason.data) {
    JSValue failed = JS_NewObjectProto(js, JS_NULL);
    set(failed, "reason", answer->failed.reason);
    set(failed, "message", answer->failed.message);
    JS_SetPropertyStr(js, made, "failed", failed);
  } else {
    JS_SetPropertyStr(js, made, "value", value);
  }
  return made;
}

static JSValue bytes_value(opcell_text bytes) {
  return JS_NewUint8ArrayCopy(js, (const uint8_t *)(bytes.data ? bytes.data : ""), bytes.length);
}

static JSValue pair(JSValue first, JSValue second) {
  JSValue made = JS_NewArray(js);
  JS_SetPropertyUint32(js, made, 0, first);
  JS_SetPropertyUint32(js, made, 1, second);
  return made;
}

/* The bytes of a typed array; false leaves an exception. */
static bool bytes_at(JSValueConst value, opcell_text *bytes) {
  size_t length;
  uint8_t *data = JS_GetUint8Array(js, &length, value);
  if (!data && JS_HasException(js)) {
    JS_FreeValue(js, JS_GetException(js));
    JS_ThrowTypeError(js, "the content is a string or a Uint8Array");
    return false;
  }
  *bytes = (opcell_text){data ? (const char *)data : "", length};
  return true;
}

/* A text that ends with a zero byte; one that cannot be had is empty. */
static const char *string_at(JSValueConst value) {
  opcell_text text = shown(value);
  return text.data ? text.data : "";
}

#define FUNCTION(name)                                                                                                   \
  static JSValue name(JSContext *context, JSValueConst self, int count, JSValueConst *values)
#define UNUSED (void)context, (void)self, (void)count, (void)values

/* ---- texts ---- */

FUNCTION(encode) {
  UNUSED;
  opcell_text text = shown(values[0]);
  return bytes_value(text);
}

/* The bytes of one character of UTF-8, or 0. */
static size_t character(const unsigned char *at, size_t left) {
  size_t length = *at < 0x80 ? 1 : *at >= 0xc2 && *at < 0xe0 ? 2 : *at >= 0xe0 && *at < 0xf0 ? 3 : *at >= 0xf0 && *at < 0xf5 ? 4 : 0;
  if (!length || length > left) return 0;
  for (size_t i = 1; i < length; i++) {
    unsigned char low = 0x80, high = 0xbf;
    if (i == 1) {
      if (*at == 0xe0) low = 0xa0;
      if (*at == 0xed) high = 0x9f;
      if (*at == 0xf0) low = 0x90;
      if (*at == 0xf4) high = 0x8f;
    }
    if (at[i] < low || at[i] > high) return 0;
  }
  return length;
}

/* The text of bytes. What is not UTF-8 is replaced if the second argument says so, else there is no text. */
FUNCTION(decode) {
  (void)self;
  opcell_text bytes;
  if (!bytes_at(values[0], &bytes)) return JS_EXCEPTION;
  bool is_lossy = count > 1 && JS_ToBool(context, values[1]);
  struct text made = {0};
  const unsigned char *at = (const unsigned char *)bytes.data, *end = at + bytes.length;
  while (at < end) {
    const unsigned char *from = at;
    size_t length = 0;
    while (at < end && (length = character(at, (size_t)(end - at)))) at += length;
    text_add(&made, (const char *)from, (size_t)(at - from));
    if (at == end) break;
    if (!is_lossy) return JS_UNDEFINED;
    text_add_string(&made, "\xef\xbf\xbd");
    at++;
  }
  if (made.cut) return JS_ThrowOutOfMemory(context);
  return JS_NewStringLen(context, made.data ? made.data : "", made.length);
}

/* ---- tools and skills ---- */

struct list {
  const char *items;
  size_t count;
};

IMPORT("opcell:plugin/tools@0.1.0", "list")
void source_tools(struct list *into);
IMPORT("opcell:plugin/skills@0.1.0", "list")
void source_skills(struct list *into);
IMPORT("opcell:plugin/skills@0.1.0", "read-resource")
void source_resource(const char *name, size_t name_length, const char *path, size_t path_length, void *into);
IMPORT("opcell:plugin/files@0.1.0", "roots")
void source_roots(struct list *into);

/* Records of texts, as arrays of them. */
static JSValue texts_of(struct list list, int texts) {
  JSValue made = JS_NewArray(js);
  for (size_t i = 0; i < list.count; i++) {
    const opcell_text *record = (const opcell_text *)list.items + i * (size_t)texts;
    JSValue one = JS_NewArray(js);
    for (int j = 0; j < texts; j++) JS_SetPropertyUint32(js, one, (uint32_t)j, text_value(record[j]));
    JS_SetPropertyUint32(js, made, (uint32_t)i, one);
  }
  return made;
}

FUNCTION(list_tools) {
  UNUSED;
  struct list list;
  source_tools(&list);
  return texts_of(list, 3);
}

FUNCTION(list_skills) {
  UNUSED;
  struct list list;
  source_skills(&list);
  return texts_of(list, 2);
}

FUNCTION(read_skill) {
  UNUSED;
  opcell_answer answer = opcell_skill(string_at(values[0]));
  return answer_of(&answer, answer.value.data ? text_value(answer.value) : JS_NULL);
}

/* The error of a tool, a skill or a file begins at 4, its payload at 8. */
static JSValue skill_error(const char *at) {
  opcell_answer answer = {0};
  opcell_text texts[3];
  memcpy(texts, at + 8, sizeof texts);
  if (!at[4]) {
    answer.denied.capability = texts[0], answer.denied.rule = texts[1], answer.denied.remedy = texts[2];
  } else {
    answer.failed.reason = texts[0], answer.failed.message = texts[1];
  }
  return answer_of(&answer, JS_NULL);
}

FUNCTION(read_resource) {
  UNUSED;
  _Alignas(8) char into[40];
  opcell_text name = shown(values[0]), path = shown(values[1]);
  source_resource(name.data, name.length, path.data, path.length, into);
  if (into[0]) return skill_error(into);
  opcell_text bytes;
  memcpy(&bytes, into + 4, sizeof bytes);
  return answer_of(0, bytes_value(bytes));
}

/* ---- files ---- */

FUNCTION(list_roots) {
  UNUSED;
  enum { ROOT_SIZE = 12, WRITABLE_AT = 8 };
  struct list list;
  source_roots(&list);
  JSValue made = JS_NewArray(js);
  for (size_t i = 0; i < list.count; i++) {
    const char *at = list.items + i * ROOT_SIZE;
    opcell_text name;
    memcpy(&name, at, sizeof name);
    JS_SetPropertyUint32(js, made, (uint32_t)i, pair(text_value(name), JS_NewBool(js, at[WRITABLE_AT])));
  }
  return made;
}

FUNCTION(list_entries) {
  UNUSED;
  static const char *const kinds[] = {"file", "directory", "other"};
  opcell_entries entries = opcell_list_files(string_at(values[0]), string_at(values[1]));
  if (entries.failed) return answer_of(&entries.error, JS_NULL);
  JSValue made = JS_NewArray(js);
  for (size_t i = 0; i < entries.count; i++) {
    const opcell_entry *entry = &entries.entries[i];
    JSValue one = pair(text_value(entry->name), JS_NewString(js, kinds[entry->kind]));
    JS_SetPropertyUint32(js, one, 2, JS_NewFloat64(js, (double)entry->size));
    JS_SetPropertyUint32(js, made, (uint32_t)i, one);
  }
  return answer_of(0, made);
}

FUNCTION(read_file) {
  UNUSED;
  opcell_answer answer = opcell_read_file(string_at(values[0]), string_at(values[1]));
  return answer_of(&answer, answer.value.data ? bytes_value(answer.value) : JS_NULL);
}

FUNCTION(write_file) {
  UNUSED;
  opcell_text content;
  if (!bytes_at(values[2], &content)) return JS_EXCEPTION;
  opcell_answer answer = opcell_write_file(string_at(values[0]), string_at(values[1]), content);
  return answer_of(&answer, JS_UNDEFINED);
}

FUNCTION(remove_file) {
  UNUSED;
  opcell_answer answer = opcell_remove_file(string_at(values[0]), string_at(values[1]));
  return answer_of(&answer, JS_UNDEFINED);
}

/* ---- stores ---- */

static JSValue entry_of(const opcell_stored *stored) {
  if (!stored->found) return JS_UNDEFINED;
  JSValue entry = JS_NewObject(js);
  JS_SetPropertyStr(js, entry, "value", bytes_value(stored->value));
  JS_SetPropertyStr(js, entry, "version", JS_NewBigUint64(js, stored->version));
  return entry;
}

FUNCTION(store_get) {
  UNUSED;
  opcell_stored stored = opcell_store_get(string_at(values[0]), shown(values[1]));
  return answer_of(stored.failed ? &stored.error : 0, stored.failed ? JS_NULL : entry_of(&stored));
}

FUNCTION(store_set) {
  UNUSED;
  opcell_text content;
  if (!bytes_at(values[2], &content)) return JS_EXCEPTION;
  opcell_stored stored = opcell_store_set(string_at(values[0]), shown(values[1]), content);
  return answer_of(stored.failed ? &stored.error : 0, JS_NewBigUint64(js, stored.version));
}

FUNCTION(store_swap) {
  UNUSED;
  opcell_text content;
  uint64_t version = 0;
  bool has_version = !JS_IsUndefined(values[2]) && !JS_IsNull(values[2]);
  if (has_version && JS_ToBigUint64(context, &version, values[2])) return JS_EXCEPTION;
  if (!bytes_at(values[3], &content)) return JS_EXCEPTION;
  opcell_stored stored = opcell_store_swap(string_at(values[0]), shown(values[1]), has_version ? &version : 0, content);
  if (stored.failed) return answer_of(&stored.error, JS_NULL);
  JSValue swap = JS_NewObject(js);
  if (stored.stored) JS_SetPropertyStr(js, swap, "stored", JS_NewBigUint64(js, stored.version));
  else JS_SetPropertyStr(js, swap, "conflict", entry_of(&stored));
  return answer_of(0, swap);
}

FUNCTION(store_list) {
  UNUSED;
  uint32_t limit = 0;
  if (JS_ToUint32(context, &limit, values[3])) return JS_EXCEPTION;
  opcell_text after = JS_IsUndefined(values[2]) ? OPCELL_NONE : shown(values[2]);
  opcell_keys keys = opcell_store_list(string_at(values[0]), shown(values[1]), after, limit);
  if (keys.failed) return answer_of(&keys.error, JS_NULL);
  JSValue page = JS_NewObject(js), list = JS_NewArray(js);
  for (size_t i = 0; i < keys.count; i++) JS_SetPropertyUint32(js, list, (uint32_t)i, text_value(keys.keys[i]));
  JS_SetPropertyStr(js, page, "keys", list);
  JS_SetPropertyStr(js, page, "more", JS_NewBool(js, keys.more));
  return answer_of(0, page);
}

FUNCTION(store_delete) {
  UNUSED;
  opcell_stored stored = opcell_store_delete(string_at(values[0]), shown(values[1]));
  return answer_of(stored.failed ? &stored.error : 0, JS_NewBool(js, stored.found));
}

FUNCTION(progress) {
  UNUSED;
  double done = 0, total = 0;
  if (JS_ToFloat64(context, &done, values[0]) || JS_ToFloat64(context, &total, values[1])) return JS_EXCEPTION;
  opcell_progress(done > 0 ? (uint64_t)done : 0, total > 0 ? (uint64_t)total : 0, shown(values[2]));
  return JS_UNDEFINED;
}

static const struct {
  const char *name;
  JSCFunction *function;
  int length;
} FUNCTIONS[] = {
    {"encode", encode, 1},          {"decode", decode, 2},         {"tools", list_tools, 0},
    {"skills", list_skills, 0},     {"skill", read_skill, 1},      {"resource", read_resource, 2},
    {"roots", list_roots, 0},       {"entries", list_entries, 2},  {"read", read_file, 2},
    {"write", write_file, 3},       {"remove", remove_file, 2},    {"storeGet", store_get, 2},
    {"storeSet", store_set, 3},     {"storeSwap", store_swap, 4},  {"storeList", store_list, 4},
    {"storeDelete", store_delete, 2}, {"progress", progress, 3},
};

/* ---- the module ---- */

static int export_names(JSContext *context, JSModuleDef *module) {
  JSValue names = JS_GetPropertyStr(context, sdk, "exports");
  for (size_t i = 0; i < NAME_COUNT; i++)
    if (JS_SetModuleExport(context, module, NAMES[i], JS_GetPropertyStr(context, names, NAMES[i]))) return -1;
  return 0;
}

JSModuleDef *source_module(JSContext *context, const char *name) {
  static const char FILE_OF_SDK[] = "/opcell.js";
  size_t length = strlen(name), of_file = sizeof FILE_OF_SDK - 1;
  bool is_sdk = !strcmp(name, "opcell") || !strcmp(name, "opcell.js") ||
                (length > of_file && !strcmp(name + length - of_file, FILE_OF_SDK));
  if (!is_sdk) {
    JS_ThrowReferenceError(context,
                           "there is no module '%.100s': a source plugin is one file and imports \"opcell\" alone; "
                           "`opcell plugin new NAME --lang javascript` makes a plugin with packages",
                           name);
    return 0;
  }
  JSModuleDef *module = JS_NewCModule(context, name, export_names);
  for (size_t i = 0; module && i < NAME_COUNT; i++)
    if (JS_AddModuleExport(context, module, NAMES[i])) return 0;
  return module;
}

/* Ends the cell with the message of a failure: a description has no other way to fail. */
static _Noreturn void end(opcell_reply reply) {
  opcell_text message = reply.failure.message;
  opcell_panic(message.data ? opcell_concat(file, ": ", message.data, (char *)0).data : file);
}

static _Noreturn void thrown(void) { end(failure_of(JS_GetException(js), "exception")); }

static JSValue member(JSValueConst object, const char *name) {
  JSValue value = JS_GetPropertyStr(js, object, name);
  if (JS_IsException(value)) thrown();
  return value;
}

/* Evaluates the module and returns its exports. */
static JSValue evaluated(opcell_text text) {
  JSValue module = JS_Eval(js, text.data, text.length, file, JS_EVAL_TYPE_MODULE | JS_EVAL_FLAG_COMPILE_ONLY);
  if (JS_IsException(module)) thrown();
  JSModuleDef *definition = JS_VALUE_GET_PTR(module);
  JSValue promise = JS_EvalFunction(js, module);
  if (JS_IsException(promise) || !settle(promise)) thrown();
  if (JS_PromiseState(js, promise) == JS_PROMISE_REJECTED) end(failure_of(JS_PromiseResult(js, promise), "exception"));
  if (JS_PromiseState(js, promise) == JS_PROMISE_PENDING) end(opcell_fail("exception", "it awaits a promise that nothing settles"));
  JSValue exports = JS_GetModuleNamespace(js, definition);
  if (JS_IsException(exports)) thrown();
  return exports;
}

/* ---- calls ---- */

static JSValue text_or_null(opcell_text text) { return text.data ? text_value(text) : JS_NULL; }

/* The entry of the called id in a list of `load`. */
static JSValue entry_named(const char *list_name) {
  JSValue list = member(offered, list_name);
  int64_t length = 0;
  JS_GetLength(js, list, &length);
  for (uint32_t i = 0; i < (uint32_t)length; i++) {
    JSValue one = JS_GetPropertyUint32(js, list, i);
    opcell_text id = property(one, "id");
    if (id.data && id.length == called.length && !memcmp(id.data, called.data, id.length)) return one;
  }
  return JS_UNDEFINED;
}

/* Calls `invoke` or `decide` of source.js with an entry. Returns false with the failure of the call. */
static bool performed(const char *function, const char *list, opcell_text arguments, opcell_context context, JSValue *value,
                      opcell_reply *failure) {
  struct text whole = {0};
  text_add(&whole, arguments.data, arguments.length);
  JSValue given = whole.cut ? JS_ThrowOutOfMemory(js) : JS_ParseJSON(js, whole.data, whole.length, "arguments");
  if (JS_IsException(given)) return *failure = failure_of(JS_GetException(js), "invalid-arguments"), false;
  JSValue where = JS_NewObject(js);
  JS_SetPropertyStr(js, where, "run", text_or_null(context.run));
  JS_SetPropertyStr(js, where, "step", text_or_null(context.step));
  JS_SetPropertyStr(js, where, "visit", JS_NewUint32(js, context.visit));
  JS_SetPropertyStr(js, where, "attempt", JS_NewUint32(js, context.attempt));
  JS_SetPropertyStr(js, where, "idempotencyKey", text_or_null(context.idempotency_key));
  JSValue values[] = {member(entry_named(list), "run"), given, where};
  JSValue promise = JS_Call(js, member(sdk, function), JS_UNDEFINED, 3, values);
  if (JS_IsException(promise) || !settle(promise)) return *failure = failure_of(JS_GetException(js), "exception"), false;
  log_rejections(promise);
  switch (JS_PromiseState(js, promise)) {
    case JS_PROMISE_FULFILLED: break;
    case JS_PROMISE_REJECTED: return *failure = failure_of(JS_PromiseResult(js, promise), "exception"), false;
    default: return *failure = opcell_fail("never-settled", "the call awaits a promise that nothing settles"), false;
  }
  *value = JS_PromiseResult(js, promise);
  opcell_text reason = property(*value, "reason");
  if (!reason.data) return true;
  failure->failure.reason = reason;
  failure->failure.message = property(*value, "message");
  if (!failure->failure.message.data) failure->failure.message = OPCELL_TEXT("");
  failure->failure.details = property(*value, "details");
  return false;
}

static opcell_reply call_operation(opcell_text arguments, opcell_context context) {
  JSValue value;
  opcell_reply reply = {0};
  if (!performed("invoke", "operations", arguments, context, &value, &reply)) return reply;
  reply.data = property(value, "data");
  if (!reply.data.data) return opcell_fail("exception", "the result cannot be read as JSON");
  reply.summary = property(value, "summary");
  reply.details = property(value, "details");
  return reply;
}

static opcell_verdict call_judge(opcell_text arguments, opcell_context context) {
  JSValue value;
  opcell_reply reply = {0};
  opcell_verdict verdict = {0};
  if (!performed("decide", "judges", arguments, context, &value, &reply)) {
    verdict.failure.reason = reply.failure.reason;
    verdict.failure.message = reply.failure.message;
    verdict.failure.details = reply.failure.details;
    return verdict;
  }
  verdict.outcome = property(value, "outcome");
  verdict.is_keyword = JS_ToBool(js, member(value, "isKeyword"));
  verdict.rationale = property(value, "rationale");
  return verdict.outcome.data ? verdict : opcell_fail_judge("exception", "the outcome cannot be read as a text");
}

/* ---- descriptions ---- */

static const char *text_in(JSValueConst entry, const char *name) {
  opcell_text text = property(entry, name);
  return text.data ? text.data : "";
}

static const char *const *outcomes_in(JSValueConst entry) {
  JSValue list = member(entry, "outcomes");
  int64_t count = 0;
  JS_GetLength(js, list, &count);
  if (count <= 0) return 0;
  const char **made = opcell_alloc(((size_t)count + 1) * sizeof *made);
  for (uint32_t i = 0; i < (uint32_t)count; i++) made[i] = string_at(JS_GetPropertyUint32(js, list, i));
  made[count] = 0;
  return made;
}

/* More entries than the host reads are not made into tables. */
enum { MAX_ENTRIES = 1000 };

static size_t entries_of(JSValueConst list) {
  int64_t length = 0;
  JS_GetLength(js, list, &length);
  if (length < 0 || length > MAX_ENTRIES) end(opcell_fail("exception", "it has more than 1000 operations or judges"));
  return (size_t)length;
}

static void fill(void) {
  JSValue operations = member(offered, "operations"), judges = member(offered, "judges");
  size_t count = entries_of(operations), judge_count = entries_of(judges);
  opcell_operation *table = opcell_alloc((count + 1) * sizeof *table);
  opcell_judge *judge_table = opcell_alloc((judge_count + 1) * sizeof *judge_table);
  memset(table, 0, (count + 1) * sizeof *table);
  memset(judge_table, 0, (judge_count + 1) * sizeof *judge_table);
  for (uint32_t i = 0; i < count; i++) {
    JSValue one = JS_GetPropertyUint32(js, operations, i);
    int32_t effects = OPCELL_ONCE;
    JS_ToInt32(js, &effects, member(one, "effects"));
    table[i] = (opcell_operation){.id = text_in(one, "id"),
                                  .summary = text_in(one, "summary"),
                                  .arguments_schema = text_in(one, "args"),
                                  .data_schema = text_in(one, "data"),
                                  .effects = effects < OPCELL_PURE || effects > OPCELL_ONCE ? OPCELL_ONCE : (opcell_effects)effects,
                                  .invoke = call_operation};
  }
  for (uint32_t i = 0; i < judge_count; i++) {
    JSValue one = JS_GetPropertyUint32(js, judges, i);
    judge_table[i] = (opcell_judge){.id = text_in(one, "id"),
                                    .summary = text_in(one, "summary"),
                                    .arguments_schema = text_in(one, "args"),
                                    .outcomes = outcomes_in(one),
                                    .judge = call_judge};
  }
  opcell_operations = table;
  opcell_judges = judge_table;
}

bool source_start(JSValueConst host) {
  for (size_t i = 0; i < sizeof FUNCTIONS / sizeof *FUNCTIONS; i++)
    JS_SetPropertyStr(js, host, FUNCTIONS[i].name,
                      JS_NewCFunction(js, FUNCTIONS[i].function, FUNCTIONS[i].name, FUNCTIONS[i].length));
  JSValue make = JS_Eval(js, (const char *)SOURCE, sizeof SOURCE - 1, "sdk.js", JS_EVAL_TYPE_GLOBAL | JS_EVAL_FLAG_STRICT);
  if (JS_IsException(make)) return false;
  sdk = JS_Call(js, make, JS_UNDEFINED, 1, &host);
  JS_FreeValue(js, make);
  return JS_IsObject(sdk);
}

void source_prepare(opcell_text id, const char *file_name, opcell_text text, JSValueConst about) {
  called = id;
  file = file_name;
  if (JS_IsException(JS_Call(js, member(sdk, "begin"), JS_UNDEFINED, 1, &about))) thrown();
  JSValue exports = evaluated(text);
  offered = JS_Call(js, member(sdk, "load"), JS_UNDEFINED, 1, &exports);
  if (JS_IsException(offered)) thrown();
  fill();
}
