/* The imports of WASI that the runtime uses: clocks, a timer and random numbers. */
#ifndef HOST_H
#define HOST_H

#include <stddef.h>
#include <stdint.h>

#define IMPORT(module, name) __attribute__((import_module(module), import_name(name)))

struct wall_clock {
  uint64_t seconds;
  uint32_t nanoseconds;
};

struct bytes {
  uint8_t *data;
  size_t length;
};

IMPORT("wasi:clocks/wall-clock@0.2.0", "now")
void wasi_wall_clock(void *into);
IMPORT("wasi:clocks/monotonic-clock@0.2.0", "now")
int64_t wasi_monotonic(void);
IMPORT("wasi:clocks/monotonic-clock@0.2.0", "subscribe-duration")
int32_t wasi_subscribe(int64_t nanoseconds);
IMPORT("wasi:io/poll@0.2.0", "[method]pollable.block")
void wasi_block(int32_t pollable);
IMPORT("wasi:io/poll@0.2.0", "[resource-drop]pollable")
void wasi_drop(int32_t pollable);
IMPORT("wasi:random/random@0.2.0", "get-random-bytes")
void wasi_random(int64_t length, void *into);

static inline struct wall_clock wall_clock_now(void) {
  struct wall_clock now;
  wasi_wall_clock(&now);
  return now;
}

static inline uint64_t monotonic_now(void) { return (uint64_t)wasi_monotonic(); }

static inline void wait_for(uint64_t nanoseconds) {
  int32_t pollable = wasi_subscribe((int64_t)nanoseconds);
  wasi_block(pollable);
  wasi_drop(pollable);
}

#endif
