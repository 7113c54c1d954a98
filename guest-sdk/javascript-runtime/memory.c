/* The allocator, in place of wasi-libc's, which needs a linker of LLVM 15: free blocks are kept by size class and used
 * again, and what no class has comes from the end of the memory. Blocks are never joined: a cell is over before that
 * would pay.
 */
#include "bundle.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
  PAGE = 1 << 16,
  SMALLEST = 16,
  CLASSES = 120,
  /* Kept when the memory first grows, and lent before the reply is put together: a program that used up all other memory
     has one. Cells that do not grow need none. */
  RESERVE_BYTES = 256 << 10,
};

/* Before each block; keeps blocks aligned to 8 bytes. */
struct header {
  uint32_t size, class;
};

struct free_block {
  struct free_block *next;
};

static struct free_block *free_blocks[CLASSES];
/* Where the next block begins, and where the memory ends. */
static size_t next, end;
/* A block that smaller ones come from when there is no more memory. */
static size_t spare, spare_end;
/* Lent when there is no more memory for the first time. */
static void *emergency;
static void *reserve;
/* Whether the engine has been started and has no reserve yet. */
static int lacks_reserve;
static void lend(void *at);
/* Whether blocks begin after the source plugin: it is put behind the memory of an engine that has been started. */
static int is_bundled;

void place_bundle(void) { bundle.at = (const char *)(__builtin_wasm_memory_size(0) * PAGE); }

/* Sizes grow by quarters of powers of two: 16, 20, 24, 28, 32, 40, … rounded up to 8 bytes. */
static uint32_t class_of(size_t size, size_t *rounded) {
  if (size < SMALLEST) size = SMALLEST;
  uint32_t power = 31 - (uint32_t)__builtin_clz((uint32_t)size), step = power - 2;
  uint32_t quarters = (uint32_t)((size - ((size_t)1 << power) + ((size_t)1 << step) - 1) >> step);
  *rounded = ((((size_t)4 + quarters) << step) + 7) & ~(size_t)7;
  return (power - 4) * 4 + quarters;
}

static struct header *header_of(void *at) { return (struct header *)at - 1; }

/* Extends the memory so that it reaches `to`. */
static int reach(size_t to) {
  if (to <= end) return 1;
  size_t pages = (to - end + PAGE - 1) / PAGE;
  if (__builtin_wasm_memory_grow(0, pages) == (size_t)-1) return 0;
  end += pages * PAGE;
  return 1;
}

/* Keeps the reserve, where `to` is beyond the end of the memory for the first time. */
static void keep_reserve(size_t to) {
  if (!lacks_reserve || to <= end) return;
  lacks_reserve = 0;
  struct header *header = (struct header *)next;
  size_t after = next + sizeof *header + RESERVE_BYTES;
  if (!reach(after)) return;
  header->size = RESERVE_BYTES;
  header->class = 0;
  reserve = header + 1;
  next = after;
}

void *malloc(size_t size) {
  if (size > (size_t)1 << 30) return 0;
  size_t rounded;
  uint32_t class = class_of(size, &rounded);
  struct free_block *found = free_blocks[class];
  if (found) {
    free_blocks[class] = found->next;
    return found;
  }
  if (!next || (bundle.length && !is_bundled)) {
    is_bundled = bundle.length != 0;
    next = ((size_t)bundle.at + bundle.length + 15) & ~(size_t)15;
    end = __builtin_wasm_memory_size(0) * PAGE;
  }
  size_t needed = sizeof(struct header) + rounded;
  keep_reserve(next + needed);
  size_t *from = reach(next + needed) ? &next : spare + needed <= spare_end ? &spare : 0;
  if (!from) {
    /* What follows is the exception that says so. */
    if (!spare) lend(emergency);
    return 0;
  }
  struct header *header = (struct header *)*from;
  header->size = (uint32_t)rounded;
  header->class = class;
  *from += needed;
  return header + 1;
}

void keep_for_exceptions(size_t size) { emergency = malloc(size); }

static void lend(void *at) {
  if (!at) return;
  spare = (size_t)header_of(at);
  spare_end = (size_t)at + header_of(at)->size;
}

void lend_reserve(void) {
  lend(reserve);
  reserve = 0;
}

void make_room(size_t size) {
  reach(next + size);
  lacks_reserve = 1;
}

void free(void *at) {
  if (!at) return;
  struct free_block *block = at;
  uint32_t class = header_of(at)->class;
  block->next = free_blocks[class];
  free_blocks[class] = block;
}

size_t malloc_usable_size(void *at) { return at ? header_of(at)->size : 0; }

void *calloc(size_t count, size_t size) {
  size_t whole;
  if (__builtin_mul_overflow(count, size, &whole)) return 0;
  void *made = malloc(whole);
  return made ? memset(made, 0, whole) : 0;
}

void *realloc(void *at, size_t size) {
  if (!at) return malloc(size);
  struct header *header = header_of(at);
  if (size <= header->size) return at;
  size_t rounded;
  /* The last block grows where it is. */
  if (size <= (size_t)1 << 30 && (size_t)at + header->size == next) {
    uint32_t class = class_of(size, &rounded);
    keep_reserve((size_t)at + rounded);
    if ((size_t)at + header->size == next && reach((size_t)at + rounded)) {
      header->size = (uint32_t)rounded;
      header->class = class;
      next = (size_t)at + rounded;
      return at;
    }
  }
  void *made = malloc(size);
  if (!made) return 0;
  memcpy(made, at, header->size);
  free(at);
  return made;
}
