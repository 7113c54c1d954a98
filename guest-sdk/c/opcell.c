/* The canonical ABI of opcell:plugin@0.3.0, by hand: five texts in, one record out. */
#include "opcell.h"

#include <stdarg.h>

#define IMPORT(module, name) __attribute__((import_module(module), import_name(name)))
#define EXPORT(name) __attribute__((export_name(name)))

/* ---- memory ---- */

#ifdef OPCELL_LIBC

/* One allocator: two that both grow the memory would hand out the same bytes. */
#include <stdlib.h>
#include <string.h>

static void *aligned(size_t size, size_t alignment) {
  /* What malloc returns is aligned for any type of the interface. */
  (void)alignment;
  void *made = malloc(size ? size : 1);
  if (!made) __builtin_trap();
  return made;
}

#else

extern unsigned char __heap_base;
static size_t next;

void *memcpy(void *restrict to, const void *restrict from, size_t length) {
  unsigned char *t = to;
  const unsigned char *f = from;
  while (length--) *t++ = *f++;
  return to;
}

void *memset(void *to, int byte, size_t length) {
  unsigned char *t = to;
  while (length--) *t++ = (unsigned char)byte;
  return to;
}

void *memmove(void *to, const void *from, size_t length) {
  unsigned char *t = to;
  const unsigned char *f = from;
  if (t < f) return memcpy(to, from, length);
  while (length--) t[length] = f[length];
  return to;
}

int memcmp(const void *a, const void *b, size_t length) {
  const unsigned char *x = a, *y = b;
  for (; length--; x++, y++)
    if (*x != *y) return *x < *y ? -1 : 1;
  return 0;
}

size_t strlen(const char *string) {
  size_t length = 0;
  while (string[length]) length++;
  return length;
}

static void *aligned(size_t size, size_t alignment) {
  if (!next) next = (size_t)&__heap_base;
  size_t start = (next + alignment - 1) & ~(alignment - 1);
  size_t end = start + size;
  if (end < start) __builtin_trap();
  size_t have = __builtin_wasm_memory_size(0) << 16;
  if (end > have && __builtin_wasm_memory_grow(0, (end - have + 0xffff) >> 16) == (size_t)-1) __builtin_trap();
  next = end;
  return (void *)start;
}

#endif

void *opcell_alloc(size_t size) { return aligned(size, 8); }

EXPORT("cabi_realloc")
void *cabi_realloc(void *old, size_t old_size, size_t alignment, size_t size) {
  void *made = aligned(size, alignment);
  if (old_size) memcpy(made, old, old_size < size ? old_size : size);
  return made;
}

/* ---- texts ---- */

opcell_text opcell_text_of(const char *string) { return (opcell_text){string, strlen(string)}; }

bool opcell_is(opcell_text text, const char *string) {
  return text.data && text.length == strlen(string) && !memcmp(text.data, string, text.length);
}

static opcell_text copied(const char *data, size_t length) {
  char *made = opcell_alloc(length + 1);
  memcpy(made, data, length);
  made[length] = 0;
  return (opcell_text){made, length};
}

opcell_text opcell_concat(const char *first, ...) {
  va_list parts;
  size_t length = 0;
  va_start(parts, first);
  for (const char *part = first; part; part = va_arg(parts, const char *)) length += strlen(part);
  va_end(parts);
  char *made = opcell_alloc(length + 1), *at = made;
  va_start(parts, first);
  for (const char *part = first; part; part = va_arg(parts, const char *)) {
    size_t part_length = strlen(part);
    memcpy(at, part, part_length);
    at += part_length;
  }
  va_end(parts);
  *at = 0;
  return (opcell_text){made, length};
}

/* ---- JSON ---- */

opcell_text opcell_json_string(opcell_text text) {
  static const char digits[] = "0123456789abcdef";
  char *made = opcell_alloc(text.length * 6 + 3), *at = made;
  *at++ = '"';
  for (size_t i = 0; i < text.length; i++) {
    unsigned char byte = (unsigned char)text.data[i];
    if (byte == '"' || byte == '\\') {
      *at++ = '\\';
      *at++ = (char)byte;
    } else if (byte < 0x20) {
      const char escape[] = {'\\', 'u', '0', '0', digits[byte >> 4], digits[byte & 15]};
      memcpy(at, escape, 6);
      at += 6;
    } else {
      *at++ = (char)byte;
    }
  }
  *at++ = '"';
  *at = 0;
  return (opcell_text){made, (size_t)(at - made)};
}

static const char *space(const char *at, const char *end) {
  while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')) at++;
  return at;
}

/* The end of the string that begins at `at`, after its closing quote; null where there is none. */
static const char *string_end(const char *at, const char *end) {
  for (at++; at < end; at++) {
    if (*at == '\\') at++;
    else if (*at == '"') return at + 1;
  }
  return 0;
}

/* The end of the value that begins at `at`; null where it is not JSON. The host checks arguments, so this only looks for ends. */
static const char *value_end(const char *at, const char *end) {
  size_t depth = 0;
  while (at < end) {
    if (*at == '"') {
      at = string_end(at, end);
      if (!at) return 0;
      if (!depth) return at;
      continue;
    }
    if (*at == '{' || *at == '[') depth++;
    else if (*at == '}' || *at == ']') {
      if (!depth) return at;
      if (!--depth) return at + 1;
    } else if (!depth && (*at == ',' || *at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')) {
      return at;
    }
    at++;
  }
  return depth ? 0 : at;
}

opcell_text opcell_json_member(opcell_text object, const char *name) {
  const char *end = object.data + object.length, *at = space(object.data, end);
  opcell_text found = OPCELL_NONE;
  if (at >= end || *at != '{') return found;
  for (at = space(at + 1, end); at < end && *at == '"';) {
    const char *key_end = string_end(at, end);
    if (!key_end) return found;
    opcell_text key = opcell_json_unquote((opcell_text){at, (size_t)(key_end - at)});
    at = space(key_end, end);
    if (at >= end || *at != ':') return found;
    at = space(at + 1, end);
    const char *stop = value_end(at, end);
    if (!stop) return found;
    if (opcell_is(key, name)) found = copied(at, (size_t)(stop - at));
    at = space(stop, end);
    if (at < end && *at == ',') at = space(at + 1, end);
  }
  return found;
}

static int hex(const char *at) {
  int value = 0;
  for (int i = 0; i < 4; i++) {
    char c = at[i];
    int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
    if (digit < 0) return -1;
    value = value << 4 | digit;
  }
  return value;
}

static char *utf8(char *to, uint32_t code) {
  if (code < 0x80) {
    *to++ = (char)code;
  } else if (code < 0x800) {
    *to++ = (char)(0xc0 | code >> 6);
    *to++ = (char)(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    *to++ = (char)(0xe0 | code >> 12);
    *to++ = (char)(0x80 | (code >> 6 & 0x3f));
    *to++ = (char)(0x80 | (code & 0x3f));
  } else {
    *to++ = (char)(0xf0 | code >> 18);
    *to++ = (char)(0x80 | (code >> 12 & 0x3f));
    *to++ = (char)(0x80 | (code >> 6 & 0x3f));
    *to++ = (char)(0x80 | (code & 0x3f));
  }
  return to;
}

opcell_text opcell_json_unquote(opcell_text json) {
  if (!json.data || json.length < 2 || json.data[0] != '"') return OPCELL_NONE;
  char *made = opcell_alloc(json.length + 1), *to = made;
  const char *end = json.data + json.length - 1;
  for (const char *at = json.data + 1; at < end; at++) {
    if (*at != '\\') {
      *to++ = *at;
      continue;
    }
    switch (*++at) {
      case 'b': *to++ = '\b'; break;
      case 'f': *to++ = '\f'; break;
      case 'n': *to++ = '\n'; break;
      case 'r': *to++ = '\r'; break;
      case 't': *to++ = '\t'; break;
      case 'u': {
        if (end - at < 5) return OPCELL_NONE;
        int code = hex(at + 1);
        at += 4;
        if (code >= 0xd800 && code < 0xdc00 && end - at >= 7 && at[1] == '\\' && at[2] == 'u') {
          int low = hex(at + 3);
          if (low >= 0xdc00 && low < 0xe000) {
            code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
            at += 6;
          }
        }
        if (code < 0 || (code >= 0xd800 && code < 0xe000)) return OPCELL_NONE;
        to = utf8(to, (uint32_t)code);
        break;
      }
      default: *to++ = *at;
    }
  }
  *to = 0;
  return (opcell_text){made, (size_t)(to - made)};
}

/* ---- replies ---- */

opcell_reply opcell_fail(const char *reason, const char *message) {
  opcell_reply reply = {0};
  reply.failure.reason = opcell_text_of(reason);
  reply.failure.message = opcell_text_of(message);
  return reply;
}

opcell_verdict opcell_fail_judge(const char *reason, const char *message) {
  opcell_verdict verdict = {0};
  verdict.failure.reason = opcell_text_of(reason);
  verdict.failure.message = opcell_text_of(message);
  return verdict;
}

opcell_reply opcell_fail_with(opcell_answer answer) {
  opcell_reply reply = {0};
  if (answer.denied.rule.data) {
    reply.failure.reason = OPCELL_TEXT("denied");
    reply.failure.message = opcell_concat(answer.denied.capability.data, " is denied: ", answer.denied.rule.data, (char *)0);
    reply.failure.details = opcell_concat(
        "{\"capability\":", opcell_json_string(answer.denied.capability).data, ",\"rule\":",
        opcell_json_string(answer.denied.rule).data, ",\"remedy\":", opcell_json_string(answer.denied.remedy).data, "}", (char *)0);
  } else {
    reply.failure.reason = answer.failed.reason;
    reply.failure.message = answer.failed.message;
    reply.failure.details = answer.failed.details;
  }
  return reply;
}

/* ---- imports ---- */

typedef struct {
  const char *data;
  size_t length;
} raw;

IMPORT("opcell:plugin/tools@0.1.0", "call")
void host_tool(const char *name, size_t name_length, const char *arguments, size_t arguments_length, void *into);
IMPORT("opcell:plugin/calls@0.3.0", "start")
void host_start(const char *name, size_t name_length, const char *arguments, size_t arguments_length, void *into);
IMPORT("opcell:plugin/calls@0.3.0", "sleep")
void host_sleep(int64_t milliseconds, void *into);
IMPORT("opcell:plugin/calls@0.3.0", "wait-any")
void host_wait_any(const uint32_t *calls, size_t count, void *into);
IMPORT("opcell:plugin/skills@0.1.0", "read")
void host_skill(const char *name, size_t name_length, void *into);
IMPORT("opcell:plugin/files@0.1.0", "open-root")
void host_open_root(const char *name, size_t name_length, void *into);
IMPORT("opcell:plugin/files@0.1.0", "[method]directory.open")
void host_open(int32_t directory, const char *path, size_t path_length, void *into);
IMPORT("opcell:plugin/files@0.1.0", "[method]directory.create")
void host_create(int32_t directory, const char *path, size_t path_length, void *into);
IMPORT("opcell:plugin/files@0.1.0", "[method]directory.open-directory")
void host_open_directory(int32_t directory, const char *path, size_t path_length, void *into);
IMPORT("opcell:plugin/files@0.1.0", "[method]directory.remove")
void host_remove(int32_t directory, const char *path, size_t path_length, void *into);
IMPORT("opcell:plugin/files@0.1.0", "[method]directory.entries")
void host_entries(int32_t directory, void *into);
IMPORT("opcell:plugin/files@0.1.0", "[resource-drop]directory")
void host_close_directory(int32_t directory);
IMPORT("opcell:plugin/files@0.1.0", "[resource-drop]file")
void host_close_file(int32_t file);
IMPORT("opcell:plugin/files@0.1.0", "[method]file.read")
void host_read(int32_t file, int64_t offset, int32_t length, void *into);
IMPORT("opcell:plugin/files@0.1.0", "[method]file.write")
void host_write(int32_t file, const char *bytes, size_t length, void *into);
IMPORT("opcell:plugin/store@0.2.0", "get")
void host_store_get(const char *store, size_t store_length, const char *key, size_t key_length, void *into);
IMPORT("opcell:plugin/store@0.2.0", "set")
void host_store_set(const char *store, size_t store_length, const char *key, size_t key_length, const char *value,
                    size_t value_length, void *into);
IMPORT("opcell:plugin/store@0.2.0", "compare-and-set")
void host_store_swap(const char *store, size_t store_length, const char *key, size_t key_length, int32_t expects,
                     int64_t expected, const char *value, size_t value_length, void *into);
IMPORT("opcell:plugin/store@0.2.0", "list")
void host_store_list(const char *store, size_t store_length, const char *prefix, size_t prefix_length, int32_t has_after,
                     const char *after, size_t after_length, int32_t limit, void *into);
IMPORT("opcell:plugin/store@0.2.0", "delete")
void host_store_delete(const char *store, size_t store_length, const char *key, size_t key_length, void *into);
IMPORT("opcell:plugin/log@0.1.0", "log")
void host_log(int32_t level, const char *message, size_t length);
IMPORT("opcell:plugin/log@0.1.0", "progress")
void host_progress(int64_t done, int64_t total, const char *message, size_t length);
IMPORT("opcell:plugin/log@0.1.0", "panicked")
void host_panicked(const char *message, size_t length);

static opcell_text text_at(const void *at) {
  raw found;
  memcpy(&found, at, sizeof found);
  return copied(found.data, found.length);
}

/* An option<string>. */
static opcell_text option_at(const char *at) { return *at ? text_at(at + 4) : OPCELL_NONE; }

static void denied_at(const char *at, opcell_answer *answer) {
  answer->denied.capability = text_at(at);
  answer->denied.rule = text_at(at + 8);
  answer->denied.remedy = text_at(at + 16);
}

/* A result<_, variant { denied(denial), failed(failure) }>: the payload begins at 4, the variant's at 8. */
static bool asked(const char *at, opcell_answer *answer) {
  if (!at[0]) return true;
  if (!at[4]) {
    denied_at(at + 8, answer);
  } else {
    answer->failed.reason = text_at(at + 8);
    answer->failed.message = text_at(at + 16);
    answer->failed.details = option_at(at + 24);
  }
  return false;
}

/* A result<_, file-error>. */
static bool filed(const char *at, const char *root, const char *path, opcell_answer *answer) {
  static const char *const reasons[] = {"denied",          "file-not-found", "file-already-exists", "not-a-file",
                                        "not-a-directory", "file-quota",     "file-failed"};
  if (!at[0]) return true;
  unsigned char kind = (unsigned char)at[4];
  if (!kind) {
    denied_at(at + 8, answer);
  } else {
    answer->failed.reason = opcell_text_of(reasons[kind < 7 ? kind : 6]);
    const char *why = kind >= 5 ? text_at(at + 8).data : answer->failed.reason.data;
    answer->failed.message = opcell_concat(root, "/", path, ": ", why, (char *)0);
  }
  return false;
}

opcell_answer opcell_tool(const char *name, opcell_text arguments) {
  _Alignas(8) char into[40];
  opcell_answer answer = {0};
  host_tool(name, strlen(name), arguments.data, arguments.length, into);
  if (asked(into, &answer)) answer.value = text_at(into + 4);
  return answer;
}

bool opcell_tool_start(const char *name, opcell_text arguments, uint32_t *call, opcell_answer *refused) {
  _Alignas(8) char into[40];
  host_start(name, strlen(name), arguments.data, arguments.length, into);
  *refused = (opcell_answer){0};
  if (!asked(into, refused)) return false;
  memcpy(call, into + 4, sizeof *call);
  return true;
}

static void failed_at(const char *at, opcell_answer *answer) {
  answer->failed.reason = text_at(at);
  answer->failed.message = text_at(at + 8);
  answer->failed.details = option_at(at + 16);
}

bool opcell_timer_start(uint64_t milliseconds, uint32_t *call, opcell_answer *refused) {
  _Alignas(8) char into[40];
  host_sleep((int64_t)milliseconds, into);
  *refused = (opcell_answer){0};
  if (into[0]) failed_at(into + 4, refused);
  else memcpy(call, into + 4, sizeof *call);
  return !into[0];
}

/* A result<record { call: u32, answer: result<string, tool-error> }, failure>. */
opcell_ended opcell_tool_wait(const uint32_t *calls, size_t count) {
  _Alignas(8) char into[48];
  opcell_ended ended = {0};
  host_wait_any(calls, count, into);
  ended.known = !into[0];
  if (ended.known) {
    memcpy(&ended.call, into + 4, sizeof ended.call);
    if (asked(into + 8, &ended.answer)) ended.answer.value = text_at(into + 12);
  } else {
    failed_at(into + 4, &ended.answer);
  }
  return ended;
}

opcell_answer opcell_skill(const char *name) {
  _Alignas(8) char into[40];
  opcell_answer answer = {0};
  host_skill(name, strlen(name), into);
  if (asked(into, &answer)) answer.value = text_at(into + 4);
  return answer;
}

static int32_t handle_at(const char *at) {
  int32_t handle;
  memcpy(&handle, at + 4, sizeof handle);
  return handle;
}

enum { CHUNK = 1 << 16 };

/* Opens a root; the caller closes the directory. */
static bool root_opened(const char *root, const char *path, int32_t *directory, opcell_answer *answer) {
  _Alignas(8) char into[40];
  host_open_root(root, strlen(root), into);
  if (!filed(into, root, path, answer)) return false;
  *directory = handle_at(into);
  return true;
}

/* Opens or makes a file below a root; the caller closes it. A cell may have few files open. */
static bool file_opened(const char *root, const char *path, bool made, int32_t *file, opcell_answer *answer) {
  _Alignas(8) char into[40];
  int32_t directory;
  if (!root_opened(root, path, &directory, answer)) return false;
  (made ? host_create : host_open)(directory, path, strlen(path), into);
  host_close_directory(directory);
  if (!filed(into, root, path, answer)) return false;
  *file = handle_at(into);
  return true;
}

opcell_answer opcell_read_file(const char *root, const char *path) {
  _Alignas(8) char into[40];
  opcell_answer answer = {0};
  int32_t file;
  if (!file_opened(root, path, false, &file, &answer)) return answer;
  size_t room = CHUNK, length = 0;
  char *whole = opcell_alloc(room + 1);
  for (;;) {
    host_read(file, (int64_t)length, CHUNK, into);
    raw part = {0};
    if (filed(into, root, path, &answer)) memcpy(&part, into + 4, sizeof part);
    if (!part.length) break;
    if (length + part.length > room) {
      size_t more = (length + part.length) * 2;
      char *larger = opcell_alloc(more + 1);
      memcpy(larger, whole, length);
      whole = larger;
      room = more;
    }
    memcpy(whole + length, part.data, part.length);
    length += part.length;
  }
  host_close_file(file);
  whole[length] = 0;
  if (!into[0]) answer.value = (opcell_text){whole, length};
  return answer;
}

opcell_answer opcell_write_file(const char *root, const char *path, opcell_text content) {
  _Alignas(8) char into[40];
  opcell_answer answer = {0};
  int32_t file;
  if (!file_opened(root, path, true, &file, &answer)) return answer;
  bool written = true;
  for (size_t at = 0; written && at < content.length; at += CHUNK) {
    size_t part = content.length - at < CHUNK ? content.length - at : CHUNK;
    host_write(file, content.data + at, part, into);
    written = filed(into, root, path, &answer);
  }
  host_close_file(file);
  if (written) answer.value = OPCELL_TEXT("");
  return answer;
}

opcell_answer opcell_remove_file(const char *root, const char *path) {
  _Alignas(8) char into[40];
  opcell_answer answer = {0};
  int32_t directory;
  if (!root_opened(root, path, &directory, &answer)) return answer;
  host_remove(directory, path, strlen(path), into);
  host_close_directory(directory);
  if (filed(into, root, path, &answer)) answer.value = OPCELL_TEXT("");
  return answer;
}

/* The handle of a directory below a root, which the caller closes. */
static bool directory_opened(const char *root, const char *path, int32_t *directory, opcell_answer *answer) {
  _Alignas(8) char into[40];
  if (!root_opened(root, path, directory, answer)) return false;
  if (!path[0]) return true;
  host_open_directory(*directory, path, strlen(path), into);
  host_close_directory(*directory);
  if (!filed(into, root, path, answer)) return false;
  *directory = handle_at(into);
  return true;
}

opcell_entries opcell_list_files(const char *root, const char *path) {
  enum { ENTRY_SIZE = 24, KIND_AT = 8, SIZE_AT = 16 };
  _Alignas(8) char into[40];
  opcell_entries list = {0};
  int32_t directory;
  list.failed = !directory_opened(root, path, &directory, &list.error);
  if (list.failed) return list;
  host_entries(directory, into);
  host_close_directory(directory);
  list.failed = !filed(into, root, path, &list.error);
  if (list.failed) return list;
  raw found;
  memcpy(&found, into + 4, sizeof found);
  opcell_entry *entries = opcell_alloc((found.length + 1) * sizeof *entries);
  for (size_t i = 0; i < found.length; i++) {
    const char *at = found.data + i * ENTRY_SIZE;
    unsigned char kind = (unsigned char)at[KIND_AT];
    entries[i] = (opcell_entry){.name = text_at(at), .kind = kind < OPCELL_OTHER ? (opcell_kind)kind : OPCELL_OTHER};
    memcpy(&entries[i].size, at + SIZE_AT, sizeof entries[i].size);
  }
  list.entries = entries;
  list.count = found.length;
  return list;
}

/* A variant { denied(denial), invalid(string), quota(string), failed(string) }. */
static opcell_answer store_error(const char *at) {
  static const char *const reasons[] = {"denied", "store-invalid", "store-quota", "store-failed"};
  opcell_answer answer = {0};
  unsigned char kind = (unsigned char)at[0];
  if (!kind) {
    denied_at(at + 4, &answer);
  } else {
    answer.failed.reason = opcell_text_of(reasons[kind < 4 ? kind : 3]);
    answer.failed.message = text_at(at + 4);
  }
  return answer;
}

/* An option<record { value: list<u8>, version: u64 }>. */
static void entry_at(const char *at, opcell_stored *stored) {
  stored->found = *at != 0;
  if (!stored->found) return;
  stored->value = text_at(at + 8);
  memcpy(&stored->version, at + 16, sizeof stored->version);
}

opcell_stored opcell_store_get(const char *store, opcell_text key) {
  _Alignas(8) char into[40];
  opcell_stored stored = {0};
  host_store_get(store, strlen(store), key.data, key.length, into);
  stored.failed = into[0] != 0;
  if (stored.failed) stored.error = store_error(into + 8);
  else entry_at(into + 8, &stored);
  return stored;
}

opcell_stored opcell_store_set(const char *store, opcell_text key, opcell_text value) {
  _Alignas(8) char into[40];
  opcell_stored stored = {.found = true, .stored = true, .value = value};
  host_store_set(store, strlen(store), key.data, key.length, value.data, value.length, into);
  if (into[0]) return (opcell_stored){.failed = true, .error = store_error(into + 8)};
  memcpy(&stored.version, into + 8, sizeof stored.version);
  return stored;
}

opcell_stored opcell_store_swap(const char *store, opcell_text key, const uint64_t *expected, opcell_text value) {
  _Alignas(8) char into[40];
  opcell_stored stored = {0};
  host_store_swap(store, strlen(store), key.data, key.length, expected != 0, expected ? (int64_t)*expected : 0, value.data,
                  value.length, into);
  if (into[0]) return (opcell_stored){.failed = true, .error = store_error(into + 8)};
  if (into[8]) {
    entry_at(into + 16, &stored);
    return stored;
  }
  stored.found = stored.stored = true;
  stored.value = value;
  memcpy(&stored.version, into + 16, sizeof stored.version);
  return stored;
}

opcell_stored opcell_store_delete(const char *store, opcell_text key) {
  _Alignas(8) char into[40];
  host_store_delete(store, strlen(store), key.data, key.length, into);
  if (into[0]) return (opcell_stored){.failed = true, .error = store_error(into + 4)};
  return (opcell_stored){.found = into[4] != 0};
}

opcell_keys opcell_store_list(const char *store, opcell_text prefix, opcell_text after, uint32_t limit) {
  _Alignas(8) char into[40];
  host_store_list(store, strlen(store), prefix.data, prefix.length, after.data != 0, after.data, after.length, (int32_t)limit,
                  into);
  if (into[0]) return (opcell_keys){.failed = true, .error = store_error(into + 4)};
  struct {
    const char *items;
    size_t count;
  } found;
  memcpy(&found, into + 4, sizeof found);
  opcell_text *keys = opcell_alloc(found.count * sizeof *keys + 1);
  for (size_t i = 0; i < found.count; i++) keys[i] = text_at(found.items + i * sizeof(raw));
  return (opcell_keys){.keys = keys, .count = found.count, .more = into[12] != 0};
}

void opcell_log(opcell_level level, opcell_text message) { host_log((int32_t)level, message.data, message.length); }

void opcell_progress(uint64_t done, uint64_t total, opcell_text message) {
  host_progress((int64_t)done, (int64_t)total, message.data, message.length);
}

void opcell_panic(const char *message) {
  host_panicked(message, strlen(message));
  __builtin_trap();
}

/* ---- exports ---- */

#ifdef OPCELL_DYNAMIC
#define PREPARE(id) opcell_prepare(id)
#else
#define PREPARE(id) ((void)0)
#endif

static void put(char *at, const void *value, size_t size) { memcpy(at, value, size); }

static void put_text(char *at, opcell_text text) {
  raw value = {text.data ? text.data : "", text.length};
  put(at, &value, sizeof value);
}

static void put_option(char *at, opcell_text text) {
  *at = text.data != 0;
  if (text.data) put_text(at + 4, text);
}

static char *room(size_t size) {
  char *at = opcell_alloc(size);
  memset(at, 0, size);
  return at;
}

static void *list(char *items, size_t count) {
  char *answer = room(8);
  raw value = {items, count};
  put(answer, &value, sizeof value);
  return answer;
}

EXPORT("opcell:plugin/operations@0.1.0#describe")
void *describe_operations(void) {
  PREPARE(OPCELL_NONE);
  size_t count = 0;
  while (opcell_operations[count].id) count++;
  char *items = room(count * 36 + 1);
  for (size_t i = 0; i < count; i++) {
    const opcell_operation *one = &opcell_operations[i];
    char *at = items + i * 36;
    put_text(at, opcell_text_of(one->id));
    put_text(at + 8, opcell_text_of(one->summary));
    put_text(at + 16, opcell_text_of(one->arguments_schema));
    put_text(at + 24, opcell_text_of(one->data_schema));
    at[32] = (char)one->effects;
  }
  return list(items, count);
}

static opcell_context context_of(const char *run, size_t run_length, const char *step, size_t step_length, uint32_t visit,
                                 uint32_t attempt, const char *key, size_t key_length) {
  return (opcell_context){{run, run_length}, {step, step_length}, visit, attempt, {key, key_length}};
}

static void put_failure(char *at, opcell_text reason, opcell_text message, opcell_text details) {
  put_text(at, reason);
  put_text(at + 8, message);
  put_option(at + 16, details);
}

EXPORT("opcell:plugin/operations@0.1.0#invoke")
void *invoke(const char *id, size_t id_length, const char *arguments, size_t arguments_length, const char *run, size_t run_length,
             const char *step, size_t step_length, uint32_t visit, uint32_t attempt, const char *key, size_t key_length) {
  PREPARE(((opcell_text){id, id_length}));
  opcell_reply reply = opcell_fail("unknown-id", "this plugin has no such operation");
  for (const opcell_operation *one = opcell_operations; one->id; one++)
    if (opcell_is((opcell_text){id, id_length}, one->id))
      reply = one->invoke((opcell_text){arguments, arguments_length},
                          context_of(run, run_length, step, step_length, visit, attempt, key, key_length));
  char *answer = room(36);
  if (reply.failure.reason.data) {
    answer[0] = 1;
    put_failure(answer + 4, reply.failure.reason, reply.failure.message, reply.failure.details);
  } else {
    put_text(answer + 4, reply.data);
    put_option(answer + 12, reply.summary);
    put_option(answer + 24, reply.details);
  }
  return answer;
}

EXPORT("opcell:plugin/judges@0.1.0#describe")
void *describe_judges(void) {
  PREPARE(OPCELL_NONE);
  size_t count = 0;
  while (opcell_judges[count].id) count++;
  char *items = room(count * 32 + 1);
  for (size_t i = 0; i < count; i++) {
    const opcell_judge *one = &opcell_judges[i];
    char *at = items + i * 32;
    put_text(at, opcell_text_of(one->id));
    put_text(at + 8, opcell_text_of(one->summary));
    put_text(at + 16, opcell_text_of(one->arguments_schema));
    size_t outcomes = 0;
    while (one->outcomes && one->outcomes[outcomes]) outcomes++;
    char *made = room(outcomes * 12 + 1);
    for (size_t j = 0; j < outcomes; j++) {
      const char *outcome = one->outcomes[j];
      made[j * 12] = outcome[0] == ':';
      put_text(made + j * 12 + 4, opcell_text_of(outcome[0] == ':' ? outcome + 1 : outcome));
    }
    raw value = {made, outcomes};
    put(at + 24, &value, sizeof value);
  }
  return list(items, count);
}

EXPORT("opcell:plugin/judges@0.1.0#judge")
void *judge(const char *id, size_t id_length, const char *arguments, size_t arguments_length, const char *run, size_t run_length,
            const char *step, size_t step_length, uint32_t visit, uint32_t attempt, const char *key, size_t key_length) {
  PREPARE(((opcell_text){id, id_length}));
  opcell_verdict verdict = opcell_fail_judge("unknown-id", "this plugin has no such judge");
  for (const opcell_judge *one = opcell_judges; one->id; one++)
    if (opcell_is((opcell_text){id, id_length}, one->id))
      verdict = one->judge((opcell_text){arguments, arguments_length},
                           context_of(run, run_length, step, step_length, visit, attempt, key, key_length));
  char *answer = room(32);
  if (verdict.failure.reason.data) {
    answer[0] = 1;
    put_failure(answer + 4, verdict.failure.reason, verdict.failure.message, verdict.failure.details);
  } else {
    answer[4] = verdict.is_keyword;
    put_text(answer + 8, verdict.outcome);
    put_option(answer + 16, verdict.rationale);
  }
  return answer;
}
