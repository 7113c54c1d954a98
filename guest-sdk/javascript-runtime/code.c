/* The engine, and the plugin `code`: runs programs in JavaScript, each in a cell of its own. A component that holds a
 * source plugin (source.c) has the same engine and not this operation.
 *
 * A program is the body of an async function. The engine is quickjs-ng; the reply is put together here and not in
 * JavaScript, so that nothing that a program does to its realm changes the form of the reply. Nothing is freed at the
 * end: the cell ends with the call.
 */
#include "boot.h"
#include "bundle.h"
#include "engine.h"
#include "frames.h"
#include "host.h"

#include <stdlib.h>
#include <string.h>

/* Of memory.c. */
size_t malloc_usable_size(void *at);
/* Keeps memory that is lent when there is no other for the first time: an exception needs some as well. */
void keep_for_exceptions(size_t size);
/* Lets blocks of any size come from the block that is kept when the memory first grows, once there is no other. */
void lend_reserve(void);
/* Makes room for this much without growing the memory. */
void make_room(size_t size);

/* The file of a program in its errors. */
static const char *file_name = "program.js";
/* Before a line in a stack; made before memory may be used up. */
static const char *file_mark = "program.js:";

/* Before a program, in its first line: columns there count from its end. */
static const char HEAD[] = "(async (input) => {";

enum {
  /* Bytes of the stack in linear memory, which is all that the engine can measure. With this much, functions that call
     one another meet a RangeError before they use up the stack of the machine, of which a cell has 512 KiB. The parser
     and JSON use more of that one: with thousands of nested brackets they end the cell. */
  STACK_BYTES = 112 << 10,
  /* Memory that cells begin with, so that those of most programs never ask for more: that is a system call each time. */
  ROOM_BYTES = 128 << 10,
  /* Memory for the exception that a program gets when it has used up all other. */
  EXCEPTION_BYTES = 16 << 10,
  /* Memory in use from which on the engine looks for cycles: most programs are over before that pays. */
  COLLECT_BYTES = 2 << 20,
  MAX_JSON_DEPTH = 1000,
  MAX_LOG_BYTES = 64 << 10,
  MAX_MESSAGE_BYTES = 2000,
  MAX_LINE_BYTES = 160,
  MAX_STACK_BYTES = 4000,
};

JSContext *js;
static JSValue run_timer, begin, failed_call, call, tools, host;
static struct {
  const char *data;
  size_t length;
} source;
/* The lines of the log as items of a JSON array, and how many bytes of text they are. */
static struct text logs;
static size_t log_bytes, dropped_lines;

/* ---- memory of the engine ---- */

static void *engine_calloc(void *opaque, size_t count, size_t size) { return (void)opaque, calloc(count, size); }
static void *engine_malloc(void *opaque, size_t size) { return (void)opaque, malloc(size); }
static void engine_free(void *opaque, void *at) { (void)opaque, free(at); }
static void *engine_realloc(void *opaque, void *at, size_t size) { return (void)opaque, realloc(at, size); }
static size_t engine_size(const void *at) { return malloc_usable_size((void *)at); }

/* ---- texts ---- */

/* A value as text that is Unicode; `data` is null when it cannot be had, with the exception dropped. */
opcell_text shown(JSValueConst value) {
  size_t length;
  const char *text = JS_ToCStringLen(js, &length, value);
  char *copy = text ? malloc(length + 1) : 0;
  if (!copy) {
    JS_FreeValue(js, JS_GetException(js));
    return OPCELL_NONE;
  }
  memcpy(copy, text, length + 1);
  JS_FreeCString(js, text);
  repair_utf8(copy, length);
  return (opcell_text){copy, length};
}

/* A value as JSON; `data` is null when there is none, and the exception is left. */
opcell_text json_of(JSValueConst value) {
  JSValue json = JS_JSONStringify(js, value, JS_UNDEFINED, JS_UNDEFINED);
  if (!JS_IsString(json)) return OPCELL_NONE;
  size_t length;
  const char *text = JS_ToCStringLen(js, &length, json);
  char *copy = text ? malloc(length + 1) : 0;
  if (!copy) return OPCELL_NONE;
  memcpy(copy, text, length + 1);
  JS_FreeCString(js, text);
  JS_FreeValue(js, json);
  repair_json(copy, length);
  return (opcell_text){copy, length};
}

opcell_text property(JSValueConst object, const char *name) {
  JSValue value = JS_GetPropertyStr(js, object, name);
  if (JS_IsException(value)) JS_FreeValue(js, JS_GetException(js));
  if (!JS_IsString(value)) return OPCELL_NONE;
  return shown(value);
}

/* As the console shows a value. */
opcell_text displayed(JSValueConst value) {
  if (JS_IsError(value)) {
    opcell_text name = shown(value), stack = property(value, "stack");
    if (!name.data) return OPCELL_TEXT("(an error that cannot be read)");
    if (!stack.data || !stack.length) return name;
    return opcell_concat(name.data, "\n", stack.data, (char *)0);
  }
  if (JS_IsObject(value) && !JS_IsFunction(js, value)) {
    opcell_text json = json_of(value);
    if (json.data) return json;
    JS_FreeValue(js, JS_GetException(js));
  }
  opcell_text text = JS_IsSymbol(value) ? OPCELL_TEXT("(a symbol)") : shown(value);
  return text.data ? text : OPCELL_TEXT("(a value that cannot be shown)");
}

/* ---- functions for boot.js ---- */

JSValue text_value(opcell_text text) { return JS_NewStringLen(js, text.data, text.length); }

static void set_text(JSValue object, const char *name, opcell_text text) {
  if (text.data) JS_SetPropertyStr(js, object, name, text_value(text));
}

/* `{ value }`, `{ denied }` or `{ failed }`. */
static JSValue answer_value(const opcell_answer *answer) {
  JSValue made = JS_NewObjectProto(js, JS_NULL);
  if (answer->denied.rule.data) {
    JSValue denied = JS_NewObjectProto(js, JS_NULL);
    set_text(denied, "capability", answer->denied.capability);
    set_text(denied, "rule", answer->denied.rule);
    set_text(denied, "remedy", answer->denied.remedy);
    JS_SetPropertyStr(js, made, "denied", denied);
  } else if (answer->failed.reason.data) {
    JSValue failed = JS_NewObjectProto(js, JS_NULL);
    set_text(failed, "reason", answer->failed.reason);
    set_text(failed, "message", answer->failed.message);
    if (answer->failed.details.data) {
      JSValue details = JS_ParseJSON(js, answer->failed.details.data, answer->failed.details.length, "details");
      if (JS_IsException(details)) return details;
      JS_SetPropertyStr(js, failed, "details", details);
    }
    JS_SetPropertyStr(js, made, "failed", failed);
  } else {
    JSValue value = JS_ParseJSON(js, answer->value.data, answer->value.length, "result");
    if (JS_IsException(value)) return value;
    JS_SetPropertyStr(js, made, "value", value);
  }
  return made;
}

/* The name and the arguments of a call; false leaves an exception. */
static bool call_of(JSContext *context, JSValueConst *values, opcell_text *name, opcell_text *arguments) {
  *name = shown(values[0]), *arguments = json_of(values[1]);
  if (name->data && arguments->data) return true;
  if (!JS_HasException(context)) JS_ThrowTypeError(context, "the arguments of a tool are an object of JSON");
  return false;
}

/* Makes a call, for source plugins: the answer is there when it returns. */
static JSValue host_call(JSContext *context, JSValueConst self, int count, JSValueConst *values) {
  (void)self, (void)count;
  opcell_text name, arguments;
  if (!call_of(context, values, &name, &arguments)) return JS_EXCEPTION;
  opcell_answer answer = opcell_tool(name.data, arguments);
  return answer_value(&answer);
}

/* ---- calls of programs ---- */

enum {
  /* Calls that are started with the host at once: each wait names all of them. The host has its own limit. */
  MAX_STARTED = 256,
};

/* A call that the program has made. One without a name is a timer. */
struct call {
  opcell_text name, arguments;
  uint64_t milliseconds;
  /* Its number with the host. */
  uint32_t number;
  /* The functions that settle its promise. */
  JSValue resolve, reject;
  /* The place in the program of an error is where the call was made. */
  struct frames frames;
};
/* Calls that are not started, in their order. */
static struct call **queue;
static size_t queue_length, queue_room, queue_next;
/* The calls that are started. */
static struct call *started[MAX_STARTED];
static size_t started_count, timer_count;

static bool is_timer(const struct call *call) { return !call->name.data; }

static void forget(struct call *call) {
  free((void *)call->name.data);
  free((void *)call->arguments.data);
  JS_FreeValue(js, call->resolve);
  JS_FreeValue(js, call->reject);
  frames_free(js, &call->frames);
  free(call);
}

/* A call that is not queued, and its promise. An exception leaves no call. */
static JSValue new_call(JSContext *context, struct call **made) {
  JSValue functions[2], promise = JS_NewPromiseCapability(context, functions);
  if (JS_IsException(promise)) return promise;
  struct call *call = calloc(1, sizeof *call);
  if (!call) {
    JS_FreeValue(context, functions[0]);
    JS_FreeValue(context, functions[1]);
    JS_FreeValue(context, promise);
    return JS_ThrowOutOfMemory(context);
  }
  call->resolve = functions[0], call->reject = functions[1];
  frames_take(context, &call->frames);
  *made = call;
  return promise;
}

/* Takes a call into the queue. False leaves an exception. */
static bool enqueue(JSContext *context, struct call *call) {
  if (queue_next == queue_length) queue_next = queue_length = 0;
  if (queue_length == queue_room) {
    size_t room = queue_room ? queue_room * 2 : 16;
    struct call **grown = realloc(queue, room * sizeof *grown);
    if (!grown) {
      JS_ThrowOutOfMemory(context);
      return false;
    }
    queue = grown, queue_room = room;
  }
  queue[queue_length++] = call;
  return true;
}

/* Begins a call of a tool. Whatever is wrong with it rejects its promise, as that of an async function. */
static JSValue begin_call(JSContext *context, JSValueConst name, JSValueConst arguments) {
  struct call *call;
  JSValue promise = new_call(context, &call), none = JS_UNDEFINED;
  if (JS_IsException(promise)) return promise;
  if (JS_IsUndefined(arguments)) arguments = none = JS_NewObject(context);
  JSValueConst values[] = {name, arguments};
  if (!JS_IsString(name)) {
    JS_ThrowTypeError(context, "call(name, arguments): the name of a tool is a string");
  } else if (!JS_IsObject(arguments)) {
    opcell_text text = shown(name);
    JS_ThrowTypeError(context, "call(\"%.200s\", arguments): the arguments are an object", text.data ? text.data : "");
  } else if (call_of(context, values, &call->name, &call->arguments) && enqueue(context, call)) {
    JS_FreeValue(context, none);
    return promise;
  }
  JS_FreeValue(context, none);
  JSValue error = JS_GetException(context);
  JSValue rejected = JS_Call(context, call->reject, JS_UNDEFINED, 1, (JSValueConst *)&error);
  JS_FreeValue(context, error);
  forget(call);
  if (!JS_IsException(rejected)) return promise;
  JS_FreeValue(context, promise);
  return JS_EXCEPTION;
}

/* `call(name, arguments)` */
static JSValue program_call(JSContext *context, JSValueConst self, int count, JSValueConst *values) {
  (void)self, (void)count;
  return begin_call(context, values[0], values[1]);
}

/* `tools.NAME(arguments)` */
static JSValue tool_call(JSContext *context, JSValueConst self, int count, JSValueConst *values, int magic, JSValueConst *data) {
  (void)self, (void)count, (void)magic;
  return begin_call(context, data[0], values[0]);
}

static JSValue host_tool(JSContext *context, JSValueConst self, int count, JSValueConst *values) {
  (void)self, (void)count;
  return JS_NewCFunctionData(context, tool_call, 1, 0, 1, values);
}

/* Takes a timer into the queue, and returns its promise. */
static JSValue host_sleep_for(JSContext *context, JSValueConst self, int count, JSValueConst *values) {
  (void)self, (void)count;
  double milliseconds = 0;
  if (JS_ToFloat64(context, &milliseconds, values[0])) return JS_EXCEPTION;
  struct call *call;
  JSValue promise = new_call(context, &call);
  if (JS_IsException(promise)) return promise;
  call->milliseconds = milliseconds > 0 ? milliseconds < 1e15 ? (uint64_t)milliseconds : (uint64_t)1e15 : 0;
  if (enqueue(context, call)) return promise;
  forget(call);
  JS_FreeValue(context, promise);
  return JS_EXCEPTION;
}

/* Gives the program an answer, and forgets the call. Returns false if an exception ended it. */
static bool answer_call(struct call *call, const opcell_answer *answer) {
  bool has_failed = answer->denied.rule.data || answer->failed.reason.data;
  JSValue value;
  if (has_failed) {
    JSValue values[] = {answer_value(answer), frames_text(js, &call->frames)};
    value = JS_IsException(values[0]) ? JS_EXCEPTION : JS_Call(js, failed_call, JS_UNDEFINED, 2, (JSValueConst *)values);
    JS_FreeValue(js, values[0]);
    JS_FreeValue(js, values[1]);
  } else {
    value = JS_ParseJSON(js, answer->value.data, answer->value.length, "result");
    free((void *)answer->value.data);
  }
  if (JS_IsException(value)) return false;
  JSValue done = JS_Call(js, has_failed ? call->reject : call->resolve, JS_UNDEFINED, 1, (JSValueConst *)&value);
  JS_FreeValue(js, value);
  forget(call);
  return !JS_IsException(done);
}

/* Returns true if calls are to be made, or are in progress. A program that has ended waits for no timer. */
static bool has_calls(bool has_ended) {
  return queue_next < queue_length || started_count > (has_ended ? timer_count : 0);
}

/* Makes the calls in the queue, and waits until one of those in progress has ended. A call that is made alone is made as one
 * that the program awaits. Returns false if an exception ended the program. */
static bool make_calls(bool has_ended) {
  if (!started_count && queue_next + 1 == queue_length && !is_timer(queue[queue_next])) {
    struct call *call = queue[queue_next++];
    opcell_answer answer = opcell_tool(call->name.data, call->arguments);
    return answer_call(call, &answer);
  }
  while (queue_next < queue_length && started_count < MAX_STARTED) {
    struct call *call = queue[queue_next++];
    opcell_answer refused;
    if (is_timer(call) && has_ended) {
      forget(call);
      continue;
    }
    bool is_started = is_timer(call) ? opcell_timer_start(call->milliseconds, &call->number, &refused)
                                     : opcell_tool_start(call->name.data, call->arguments, &call->number, &refused);
    if (!is_started) return answer_call(call, &refused);
    timer_count += is_timer(call);
    started[started_count++] = call;
  }
  uint32_t awaited[MAX_STARTED];
  size_t count = 0;
  for (size_t i = 0; i < started_count; i++)
    if (!has_ended || !is_timer(started[i])) awaited[count++] = started[i]->number;
  if (!count) return true;
  opcell_ended ended = opcell_tool_wait(awaited, count);
  for (size_t i = 0; i < started_count; i++) {
    struct call *call = started[i];
    if (call->number != ended.call) continue;
    timer_count -= is_timer(call);
    started[i] = started[--started_count];
    return answer_call(call, &ended.answer);
  }
  opcell_panic("the host ended a call that is not in progress");
}

IMPORT("opcell:plugin/tools@0.1.0", "list")
void host_tools(void *into);

/* The names of the tools that are granted. */
static JSValue host_list(JSContext *context, JSValueConst self, int count, JSValueConst *values) {
  (void)self, (void)count, (void)values;
  struct {
    const struct {
      opcell_text name, summary, schema;
    } *items;
    size_t count;
  } found;
  host_tools(&found);
  JSValue names = JS_NewArray(context);
  for (size_t i = 0; i < found.count; i++)
    JS_SetPropertyUint32(context, names, (uint32_t)i, text_value(found.items[i].name));
  return names;
}

static void log_line(opcell_level level, opcell_text line) {
  opcell_log(level, line);
  if (bundle.length) return;
  size_t length = whole_characters(line.data, line.length, MAX_LOG_BYTES - log_bytes);
  if (length < line.length) dropped_lines++;
  if (!length && line.length) return;
  log_bytes += length;
  if (logs.length) text_add(&logs, ",", 1);
  text_add_json(&logs, line.data, length);
}

static JSValue host_log_values(JSContext *context, JSValueConst self, int count, JSValueConst *values) {
  (void)self;
  int32_t level = OPCELL_INFO;
  JS_ToInt32(context, &level, values[0]);
  struct text line = {0};
  for (int i = 1; i < count; i++) {
    if (i > 1) text_add(&line, " ", 1);
    opcell_text part = displayed(values[i]);
    text_add(&line, part.data, part.length);
  }
  if (line.cut) return JS_ThrowOutOfMemory(context);
  log_line((opcell_level)level, (opcell_text){line.data ? line.data : "", line.length});
  free(line.data);
  return JS_UNDEFINED;
}

static JSValue host_random(JSContext *context, JSValueConst self, int count, JSValueConst *values) {
  (void)self, (void)count;
  uint32_t length = 0;
  JS_ToUint32(context, &length, values[0]);
  if (!length) return JS_NewArrayBufferCopy(context, (const uint8_t *)"", 0);
  struct bytes random;
  wasi_random(length, &random);
  JSValue made = JS_NewArrayBufferCopy(context, random.data, random.length);
  free(random.data);
  return made;
}

static JSValue host_monotonic(JSContext *context, JSValueConst self, int count, JSValueConst *values) {
  (void)self, (void)count, (void)values;
  return JS_NewFloat64(context, (double)monotonic_now() / 1e6);
}

static JSValue host_wait(JSContext *context, JSValueConst self, int count, JSValueConst *values) {
  (void)self, (void)count;
  double milliseconds = 0;
  if (JS_ToFloat64(context, &milliseconds, values[0])) return JS_EXCEPTION;
  /* More than any cell lives. */
  const double most = 24 * 3600 * 1000.0;
  if (milliseconds > 0) wait_for((uint64_t)((milliseconds < most ? milliseconds : most) * 1e6));
  return JS_UNDEFINED;
}

/* Returns true for a text of JSON that is nested deeper than the engine's parser, which measures no stack, may go. */
static JSValue host_nested(JSContext *context, JSValueConst self, int count, JSValueConst *values) {
  (void)self, (void)count;
  size_t length, deep = 0, deepest = 0;
  const char *text = JS_ToCStringLen(context, &length, values[0]);
  if (!text) return JS_EXCEPTION;
  bool in_string = false;
  for (size_t i = 0; i < length; i++) {
    char c = text[i];
    if (in_string) {
      if (c == '\\') i++;
      else if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++deep > deepest) deepest = deep;
    } else if ((c == ']' || c == '}') && deep) {
      deep--;
    }
  }
  JS_FreeCString(context, text);
  return JS_NewBool(context, deepest > MAX_JSON_DEPTH);
}

static JSModuleDef *module_of(JSContext *context, const char *name, void *opaque) {
  (void)opaque;
  if (bundle.length) return source_module(context, name);
  JS_ThrowReferenceError(context, "there is no module '%.100s': a program has the language, its input and its tools", name);
  return 0;
}

/* ---- failures ---- */

struct place {
  unsigned line, column;
};

static unsigned number_at(const char **at) {
  unsigned number = 0;
  for (; **at >= '0' && **at <= '9' && number < 100000000; ++*at) number = number * 10 + (unsigned)(**at - '0');
  return number;
}

/* The first place of the program in a stack. */
static struct place place_in(opcell_text stack) {
  const char *found = stack.data ? strstr(stack.data, file_mark) : 0;
  struct place place = {0, 0};
  if (!found) return place;
  found += strlen(file_mark);
  place.line = number_at(&found);
  if (*found == ':') {
    found++;
    place.column = number_at(&found);
    if (!bundle.length && place.line == 1 && place.column >= sizeof HEAD) place.column -= sizeof HEAD - 1;
  }
  return place;
}

/* A line of the program without the blanks around it. */
static opcell_text source_line(unsigned line) {
  const char *at = source.data, *end = source.data + source.length;
  for (; line > 1 && at < end; line--) {
    const char *next = memchr(at, '\n', (size_t)(end - at));
    if (!next) return OPCELL_NONE;
    at = next + 1;
  }
  const char *stop = memchr(at, '\n', (size_t)(end - at));
  if (!stop) stop = end;
  while (at < stop && (*at == ' ' || *at == '\t')) at++;
  while (stop > at && (stop[-1] == ' ' || stop[-1] == '\t' || stop[-1] == '\r')) stop--;
  return (opcell_text){at, whole_characters(at, (size_t)(stop - at), MAX_LINE_BYTES)};
}

static void add_member(struct text *json, const char *name, opcell_text value) {
  if (!value.data) return;
  text_add(json, json->length > 1 ? "," : "", json->length > 1);
  text_add_json(json, name, strlen(name));
  text_add(json, ":", 1);
  text_add_json(json, value.data, value.length);
}

static void add_place(struct text *json, struct place place) {
  if (!place.line) return;
  text_add_string(json, json->length > 1 ? ",\"line\":" : "\"line\":");
  text_add_number(json, place.line);
  text_add_string(json, ",\"column\":");
  text_add_number(json, place.column);
  add_member(json, "source_line", source_line(place.line));
}

/* Said in the details of a failure that the same program would meet again: no host retries it. */
#define FINAL "\"retriable\":false"

static opcell_reply failed(const char *reason, opcell_text message, struct text *details, bool is_final) {
  if (bundle.length) {
    text_add_string(details, "}");
  } else {
    text_add_string(details, details->length > 1 ? ",\"logs\":[" : "\"logs\":[");
    if (logs.data) text_add(details, logs.data, logs.length);
    text_add_string(details, is_final ? "]," FINAL "}" : "]}");
  }
  opcell_reply reply = {0};
  reply.failure.reason = opcell_text_of(reason);
  reply.failure.message = message;
  if (!details->cut && !logs.cut) reply.failure.details = (opcell_text){details->data, details->length};
  return reply;
}

static const opcell_text NO_MEMORY = {"the program has used up the memory of its cell (limit memory)", 61};

/* The failure of a program that ended with this exception. */
opcell_reply failure_of(JSValue exception, const char *reason) {
  lend_reserve();
  struct text details = {0}, message = {0};
  text_add(&details, "{", 1);
  /* The engine has no error where there was no memory to make one. */
  if (JS_IsNull(exception) || JS_IsUninitialized(exception)) return failed("out-of-memory", NO_MEMORY, &details, true);
  opcell_text text = JS_IsError(exception) ? shown(exception) : displayed(exception);
  if (!text.data) text = OPCELL_TEXT("an error that cannot be read");
  if (opcell_is(text, "InternalError: out of memory")) reason = "out-of-memory", text = NO_MEMORY;
  opcell_text stack = JS_IsError(exception) ? property(exception, "stack") : OPCELL_NONE;
  struct place place = place_in(stack);
  opcell_text rule = JS_IsError(exception) ? property(exception, "rule") : OPCELL_NONE;
  opcell_text capability = JS_IsError(exception) ? property(exception, "capability") : OPCELL_NONE;
  if (rule.data && capability.data) {
    reason = "denied";
    add_member(&details, "capability", capability);
    add_member(&details, "rule", rule);
    add_member(&details, "remedy", property(exception, "remedy"));
  }
  text_add(&message, text.data, whole_characters(text.data, text.length, MAX_MESSAGE_BYTES));
  if (place.line) {
    text_add_string(&message, ", at ");
    text_add_string(&message, file_name);
    text_add_string(&message, ":");
    text_add_number(&message, place.line);
    text_add(&message, ":", 1);
    text_add_number(&message, place.column);
    opcell_text line = source_line(place.line);
    if (line.data && line.length) {
      text_add(&message, ": `", 3);
      text_add(&message, line.data, line.length);
      text_add(&message, "`", 1);
    }
  }
  add_place(&details, place);
  if (stack.data) stack.length = whole_characters(stack.data, stack.length, MAX_STACK_BYTES);
  if (stack.data && stack.length) add_member(&details, "stack", stack);
  /* A tool that has failed may not fail again. */
  bool is_of_tool = JS_IsError(exception) && property(exception, "reason").data;
  return failed(reason, message.cut ? text : (opcell_text){message.data, message.length}, &details, !is_of_tool);
}

/* A failure without an exception. */
static opcell_reply final_failure(const char *reason, const char *message) {
  struct text details = {0};
  text_add(&details, "{", 1);
  return failed(reason, opcell_text_of(message), &details, true);
}

/* ---- rejections that nothing awaits ---- */

enum { MAX_REJECTIONS = 16 };

static struct {
  void *promise;
  JSValue reason;
} rejections[MAX_REJECTIONS];

static void rejected(JSContext *context, JSValueConst promise, JSValueConst reason, bool is_handled, void *opaque) {
  (void)opaque;
  void *of = JS_VALUE_GET_PTR(promise);
  for (int i = 0; i < MAX_REJECTIONS; i++) {
    if (is_handled && rejections[i].promise == of) {
      JS_FreeValue(context, rejections[i].reason);
      rejections[i].promise = 0;
      return;
    }
    if (!is_handled && !rejections[i].promise) {
      rejections[i].promise = of;
      rejections[i].reason = JS_DupValue(context, reason);
      return;
    }
  }
}

/* Logs the rejections that nothing has handled; the program's own is its failure. */
void log_rejections(JSValueConst own) {
  for (int i = 0; i < MAX_REJECTIONS; i++) {
    if (!rejections[i].promise || rejections[i].promise == JS_VALUE_GET_PTR(own)) continue;
    opcell_text text = displayed(rejections[i].reason);
    log_line(OPCELL_WARN, opcell_concat("nothing awaits a promise that was rejected: ", text.data, (char *)0));
  }
}

/* ---- the operation ---- */

/* Makes the engine with the globals of boot.js, and an object of the functions of the host. Returns false where there is no
   memory for it. */
static bool start(void) {
  static const JSMallocFunctions memory = {engine_calloc, engine_malloc, engine_free, engine_realloc, engine_size};
  static const struct {
    const char *name;
    JSCFunction *function;
    int length;
  } functions[] = {
      {"call", host_call, 2},           {"tool", host_tool, 1},     {"list", host_list, 0},
      {"log", host_log_values, 1},      {"random", host_random, 1}, {"monotonic", host_monotonic, 0},
      {"wait", host_wait, 1},           {"nested", host_nested, 1}, {"sleep", host_sleep_for, 1},
      {"begin", program_call, 2},
  };
  keep_for_exceptions(EXCEPTION_BYTES);
  JSRuntime *runtime = JS_NewRuntime2(&memory, 0);
  if (!runtime) return false;
  JS_SetMaxStackSize(runtime, STACK_BYTES);
  JS_SetGCThreshold(runtime, COLLECT_BYTES);
  JS_SetModuleLoaderFunc(runtime, 0, module_of, 0);
  JS_SetHostPromiseRejectionTracker(runtime, rejected, 0);
  js = JS_NewContext(runtime);
  if (!js) return false;
  host = JS_NewObjectProto(js, JS_NULL);
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
    JS_SetPropertyStr(js, host, functions[i].name,
                      JS_NewCFunction(js, functions[i].function, functions[i].name, functions[i].length));
  JSValue boot = JS_Eval(js, (const char *)BOOT, sizeof BOOT - 1, "boot.js", JS_EVAL_TYPE_GLOBAL | JS_EVAL_FLAG_STRICT);
  if (JS_IsException(boot)) return false;
  JSValue made = JS_Call(js, boot, JS_UNDEFINED, 1, &host);
  JSValue *const parts[] = {&run_timer, &begin, &failed_call, &call, &tools};
  for (uint32_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    *parts[i] = JS_GetPropertyUint32(js, made, i);
    if (!JS_IsObject(*parts[i])) return false;
  }
  return source_start(host);
}

/* Called once when the component is built: cells begin with the memory that it leaves, and thus with an engine. */
__attribute__((export_name("opcell_start"))) void opcell_start(void) {
  if (!start()) __builtin_trap();
  make_room(ROOM_BYTES);
  place_bundle();
}

/* Prepares the engine that the cell began with, or makes one. */
static bool begun(void) {
  if (!js && !start()) return false;
  JS_UpdateStackTop(JS_GetRuntime(js));
  /* All other globals of a program are in the memory that cells begin with. A source plugin has fewer. */
  if (bundle.length) return !JS_IsException(JS_Call(js, begin, JS_UNDEFINED, 0, 0));
  JSValue global = JS_GetGlobalObject(js);
  bool is_defined = JS_DefinePropertyValueStr(js, global, "call", JS_DupValue(js, call), 0) > 0 &&
                    JS_DefinePropertyValueStr(js, global, "tools", JS_DupValue(js, tools), 0) > 0;
  JS_FreeValue(js, global);
  return is_defined;
}

IMPORT("opcell:programs/kept@0.1.0", "find")
void host_find_program(void *into);
IMPORT("opcell:programs/kept@0.1.0", "keep")
void host_keep_program(const uint8_t *bytes, size_t length);

enum {
  /* A shorter program is compiled as fast as it is found. */
  MIN_KEPT_SOURCE = 256,
};

/* The code of the program that an earlier cell has made of the same text; undefined where there is none, and then the
 * host says whether it would keep one. */
static JSValue kept_code(bool *is_wanted) {
  struct {
    uint8_t is_some;
    const uint8_t *data;
    size_t length;
  } found;
  *is_wanted = false;
  if (source.length < MIN_KEPT_SOURCE) return JS_UNDEFINED;
  host_find_program(&found);
  if (!found.is_some) return JS_UNDEFINED;
  *is_wanted = !found.length;
  if (!found.length) return JS_UNDEFINED;
  JSValue code = JS_ReadObject(js, found.data, found.length, JS_READ_OBJ_BYTECODE);
  free((void *)found.data);
  if (!JS_IsException(code)) return code;
  JS_FreeValue(js, JS_GetException(js));
  return JS_UNDEFINED;
}

/* Leaves the code for later cells, before anything of it has run. */
static void keep_code(JSValueConst code) {
  size_t length;
  uint8_t *bytes = JS_WriteObject(js, &length, code, JS_WRITE_OBJ_BYTECODE);
  if (!bytes) {
    JS_FreeValue(js, JS_GetException(js));
    return;
  }
  host_keep_program(bytes, length);
  js_free(js, bytes);
}

/* The program as a function of its input. */
static JSValue compiled(void) {
  static const char TAIL[] = "\n})";
  bool is_wanted;
  JSValue code = kept_code(&is_wanted);
  if (JS_IsUndefined(code)) {
    struct text whole = {0};
    text_add(&whole, HEAD, sizeof HEAD - 1);
    text_add(&whole, source.data, source.length);
    text_add(&whole, TAIL, sizeof TAIL - 1);
    if (whole.cut) return JS_ThrowOutOfMemory(js);
    code = JS_Eval(js, whole.data, whole.length, file_name,
                   JS_EVAL_TYPE_GLOBAL | JS_EVAL_FLAG_STRICT | JS_EVAL_FLAG_COMPILE_ONLY);
    free(whole.data);
    if (JS_IsException(code)) return code;
    if (is_wanted) keep_code(code);
  }
  return JS_EvalFunction(js, code);
}

/* Runs jobs, makes calls, and runs timers while the program waits and no call is in progress. A program ends after its
 * calls. Returns false if an exception ended it. */
bool settle(JSValueConst promise) {
  JSContext *context;
  for (;;) {
    int ran;
    while ((ran = JS_ExecutePendingJob(JS_GetRuntime(js), &context)) > 0) {
    }
    if (ran < 0) return false;
    bool has_ended = JS_PromiseState(js, promise) != JS_PROMISE_PENDING;
    if (has_calls(has_ended)) {
      if (!make_calls(has_ended)) return false;
      continue;
    }
    if (has_ended) return true;
    JSValue more = JS_Call(js, run_timer, JS_UNDEFINED, 0, 0);
    if (JS_IsException(more)) return false;
    if (!JS_ToBool(js, more)) return true;
  }
}

static opcell_reply result_of(JSValueConst value) {
  opcell_text json = json_of(value);
  if (!json.data && JS_HasException(js)) return failure_of(JS_GetException(js), "result-not-json");
  lend_reserve();
  struct text reply = {0};
  text_add_string(&reply, "{\"result\":");
  text_add(&reply, json.data ? json.data : "null", json.data ? json.length : 4);
  text_add_string(&reply, ",\"logs\":[");
  if (logs.data) text_add(&reply, logs.data, logs.length);
  text_add_string(&reply, "]}");
  if (reply.cut || logs.cut) return opcell_fail("out-of-memory", NO_MEMORY.data);
  return (opcell_reply){.data = {reply.data, reply.length}};
}

static const char TOO_SMALL[] = "the memory of the cell is too small for the engine (limit memory)";

static opcell_reply run(opcell_text arguments, opcell_context context) {
  (void)context;
  if (!begun()) return opcell_fail("out-of-memory", TOO_SMALL);
  /* The engine reads up to a zero byte. */
  struct text ended = {0};
  text_add(&ended, arguments.data, arguments.length);
  JSValue given = ended.cut ? JS_ThrowOutOfMemory(js) : JS_ParseJSON(js, ended.data, ended.length, "arguments");
  if (JS_IsException(given)) return failure_of(JS_GetException(js), "invalid-arguments");
  JSValue program = JS_GetPropertyStr(js, given, "source"), input = JS_GetPropertyStr(js, given, "input");
  source.data = JS_ToCStringLen(js, &source.length, program);
  if (!source.data) return failure_of(JS_GetException(js), "program-failed");
  JSValue function = compiled();
  if (JS_IsException(function)) return failure_of(JS_GetException(js), "program-invalid");
  JSValue promise = JS_Call(js, function, JS_UNDEFINED, 1, &input);
  if (JS_IsException(promise)) return failure_of(JS_GetException(js), "program-failed");
  if (!settle(promise)) return failure_of(JS_GetException(js), "program-failed");
  log_rejections(promise);
  if (dropped_lines) log_line(OPCELL_WARN, OPCELL_TEXT("further lines of the log are left out"));
  switch (JS_PromiseState(js, promise)) {
    case JS_PROMISE_FULFILLED: return result_of(JS_PromiseResult(js, promise));
    case JS_PROMISE_REJECTED: return failure_of(JS_PromiseResult(js, promise), "program-failed");
    /* Such as of a program that closes the function around it and begins something else. */
    case JS_PROMISE_NOT_A_PROMISE:
      return final_failure("program-invalid", "the program is not the body of one function: its braces do not match");
    default: return final_failure("program-stuck", "the program awaits a promise that nothing settles");
  }
}

#define ARGUMENTS                                                                                                        \
  "{\"type\":\"object\",\"properties\":{"                                                                              \
  "\"language\":{\"enum\":[\"javascript\"]},"                                                                          \
  "\"source\":{\"type\":\"string\",\"description\":\"The body of an async function: `await` and `return` are at its "  \
  "top level; `input`, `call(name, arguments)`, `tools.NAME(arguments)` and `console` are there.\"},"                  \
  "\"input\":{\"description\":\"Any JSON; the program reads it as `input`.\"}},"                                       \
  "\"required\":[\"language\",\"source\"],\"additionalProperties\":false}"
#define DATA                                                                                                             \
  "{\"type\":\"object\",\"properties\":{\"result\":{},\"logs\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}}}," \
  "\"required\":[\"result\",\"logs\"],\"additionalProperties\":false}"

static const opcell_operation programs[] = {
    {.id = "code/run",
     .summary = "Runs a program, which may call the tools that are granted, and returns its result and its log.",
     .arguments_schema = ARGUMENTS,
     .data_schema = DATA,
     .effects = OPCELL_ONCE,
     .invoke = run},
    {0},
};
static const opcell_judge no_judges[] = {{0}};

const opcell_operation *opcell_operations = programs;
const opcell_judge *opcell_judges = no_judges;

/* Of a component that holds a source plugin, its own tables. */
void opcell_prepare(opcell_text id) {
  if (!bundle.length) return;
  const char *at = bundle.at;
  size_t described = strlen(at);
  source = (typeof(source)){at + described + 1, bundle.length - described - 2};
  if (!begun()) opcell_panic(TOO_SMALL);
  JSValue about = JS_ParseJSON(js, at, described, "bundle");
  opcell_text name = property(about, "file");
  if (name.data) {
    file_name = name.data;
    file_mark = opcell_concat(file_name, ":", (char *)0).data;
  }
  source_prepare(id, file_name, (opcell_text){source.data, source.length}, about);
}
