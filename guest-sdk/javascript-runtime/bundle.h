/* The source plugin inside of this component, if the host has put one there. */
#ifndef BUNDLE_H
#define BUNDLE_H

#include <stdint.h>

/* The host finds the record by its mark, appends a segment of data at `at`, where the heap would begin, and writes its
   length: a JSON text that describes the plugin, a zero byte, its source, a zero byte. `source.rs` of the library has
   the other side. */
struct bundle {
  char mark[16];
  const char *at;
  uint32_t length;
};

/* Volatile, since the compiler would take the length of the repository's component for that of all. */
extern const volatile struct bundle bundle;

#endif
