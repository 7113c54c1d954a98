/* The Opcell SDK for C: operations and judges as functions over JSON texts, host capabilities as calls.
 *
 * A cell lives for one call, so memory is never given back: opcell_alloc takes the next bytes, and a cell that wants more than its
 * limit ends. A plugin with a C library is compiled with OPCELL_LIBC: memory then comes from its malloc, and memcpy and its
 * like are the library's. Texts are UTF-8 with a length; those that this SDK returns also end with a zero byte.
 */
#ifndef OPCELL_H
#define OPCELL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A text, or bytes. A null `data` is no text at all: an absent summary, an absent member. */
typedef struct {
  const char *data;
  size_t length;
} opcell_text;

#define OPCELL_TEXT(literal) ((opcell_text){(literal), sizeof(literal) - 1})
#define OPCELL_NONE ((opcell_text){0, 0})

/* Where in a run a call happens. */
typedef struct {
  opcell_text run, step;
  uint32_t visit, attempt;
  opcell_text idempotency_key;
} opcell_context;

/* What an operation gives: data, or a failure whose `reason` is set. Data and details are JSON. */
typedef struct {
  opcell_text data, summary, details;
  struct {
    opcell_text reason, message, details;
  } failure;
} opcell_reply;

/* What a judge decides: an outcome, or a failure whose `reason` is set. */
typedef struct {
  opcell_text outcome;
  bool is_keyword;
  opcell_text rationale;
  struct {
    opcell_text reason, message, details;
  } failure;
} opcell_verdict;

typedef enum { OPCELL_PURE, OPCELL_IDEMPOTENT, OPCELL_ONCE } opcell_effects;

typedef struct {
  const char *id, *summary, *arguments_schema, *data_schema;
  opcell_effects effects;
  opcell_reply (*invoke)(opcell_text arguments, opcell_context context);
} opcell_operation;

typedef struct {
  const char *id, *summary, *arguments_schema;
  /* Ends with a null; a null list when the outcomes cannot be listed. */
  const char *const *outcomes;
  opcell_verdict (*judge)(opcell_text arguments, opcell_context context);
} opcell_judge;

/* The plugin defines these; each ends with an entry whose id is null. */
#ifdef OPCELL_DYNAMIC
/* A plugin that learns its tables at run time: they are read after `opcell_prepare`, which each export calls first. The
 * id is that of the operation or judge to call, or no text where the host asks for descriptions. */
extern const opcell_operation *opcell_operations;
extern const opcell_judge *opcell_judges;
void opcell_prepare(opcell_text id);
#else
extern const opcell_operation opcell_operations[];
extern const opcell_judge opcell_judges[];
#endif

/* What the host answered: a value, or what it refused, or how it failed. `value.data` is null unless it succeeded. */
typedef struct {
  opcell_text value;
  struct {
    opcell_text capability, rule, remedy;
  } denied;
  struct {
    opcell_text reason, message, details;
  } failed;
} opcell_answer;

/* Calls a granted tool with a JSON object. */
opcell_answer opcell_tool(const char *name, opcell_text arguments);

/* The end of a call that was started. When `known` is not set, `answer.failed` says why there was nothing to wait for. */
typedef struct {
  bool known;
  uint32_t call;
  opcell_answer answer;
} opcell_ended;

/* Starts a call of a granted tool, while others may be in progress, and gives its number. Returns false if it is not made;
 * `refused` then says why. */
bool opcell_tool_start(const char *name, opcell_text arguments, uint32_t *call, opcell_answer *refused);
/* Starts a timer, which ends like a call with the value `null`. Returns false if it is too long. */
bool opcell_timer_start(uint64_t milliseconds, uint32_t *call, opcell_answer *refused);
/* Waits until one of these calls has ended: of several, the one that ended first. Each end is given once. */
opcell_ended opcell_tool_wait(const uint32_t *calls, size_t count);
/* The body of a granted skill. */
opcell_answer opcell_skill(const char *name);
/* The bytes of a file below a granted root. */
opcell_answer opcell_read_file(const char *root, const char *path);
/* Makes or replaces a file below a root that is granted for writing. */
opcell_answer opcell_write_file(const char *root, const char *path, opcell_text content);
/* Removes a file, or a directory that is empty, below a root that is granted for writing. */
opcell_answer opcell_remove_file(const char *root, const char *path);

typedef enum { OPCELL_FILE, OPCELL_DIRECTORY, OPCELL_OTHER } opcell_kind;

/* An entry of a directory. The size is in bytes; that of a directory is 0. */
typedef struct {
  opcell_text name;
  opcell_kind kind;
  uint64_t size;
} opcell_entry;

/* The entries of a directory, sorted by name. When `failed` is set, `error` says why, and nothing else holds. */
typedef struct {
  bool failed;
  opcell_answer error;
  const opcell_entry *entries;
  size_t count;
} opcell_entries;

/* The entries of a directory below a granted root; the path "" is the root itself. */
opcell_entries opcell_list_files(const char *root, const char *path);

/* What a store answered to one question. When `failed` is set, `error` says why, and nothing else holds. */
typedef struct {
  bool failed;
  opcell_answer error;
  /* Whether the key has an entry now, and for opcell_store_delete: whether it had one. */
  bool found;
  /* opcell_store_swap: whether it was written. */
  bool stored;
  /* The entry: bytes, and a version that grows with every write of the store. */
  opcell_text value;
  uint64_t version;
} opcell_stored;

/* Keys of a store in the order of their bytes, and whether there are more after the last one. */
typedef struct {
  bool failed;
  opcell_answer error;
  const opcell_text *keys;
  size_t count;
  bool more;
} opcell_keys;

/* What the plugin keeps from one call to the next, in stores that are granted by name. */
opcell_stored opcell_store_get(const char *store, opcell_text key);
/* Writes a value, whatever there was. */
opcell_stored opcell_store_set(const char *store, opcell_text key, opcell_text value);
/* Writes a value if the key is at the expected version; a null pointer expects that it has no entry. */
opcell_stored opcell_store_swap(const char *store, opcell_text key, const uint64_t *expected, opcell_text value);
opcell_stored opcell_store_delete(const char *store, opcell_text key);
/* Keys that start with `prefix` and come after `after`, if that is a text: at most `limit`, and never more than 1000. */
opcell_keys opcell_store_list(const char *store, opcell_text prefix, opcell_text after, uint32_t limit);

typedef enum { OPCELL_TRACE, OPCELL_DEBUG, OPCELL_INFO, OPCELL_WARN, OPCELL_ERROR } opcell_level;
/* A message for the operator; it reaches the receipt, never a model. */
void opcell_log(opcell_level level, opcell_text message);
/* How far a long call is; `total` is 0 when it is not known. */
void opcell_progress(uint64_t done, uint64_t total, opcell_text message);
/* Ends the cell; the receipt shows the message. */
_Noreturn void opcell_panic(const char *message);

/* Fails with a stable kebab-case reason and a sentence. */
opcell_reply opcell_fail(const char *reason, const char *message);
opcell_verdict opcell_fail_judge(const char *reason, const char *message);
/* Fails as the host did: a denial keeps its rule and remedy. */
opcell_reply opcell_fail_with(opcell_answer answer);

/* Memory of this cell. Never null. */
void *opcell_alloc(size_t size);
/* A text of a string that ends with a zero byte. */
opcell_text opcell_text_of(const char *string);
/* Texts one after another; the last argument is null. */
opcell_text opcell_concat(const char *first, ...);
/* A text as a JSON string, quotes included. */
opcell_text opcell_json_string(opcell_text text);
/* A member of a JSON object as JSON; no text when there is none. */
opcell_text opcell_json_member(opcell_text object, const char *name);
/* A JSON string without quotes and escapes; no text when it is not a string. */
opcell_text opcell_json_unquote(opcell_text json);

bool opcell_is(opcell_text text, const char *string);

#endif
