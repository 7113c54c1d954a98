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
  /* Bits that are set: five zero bytes in a row would end the segment of the mark. */
  uint32_t filler;
  uint32_t length;
  uint32_t last;
};

/* Volatile, since the compiler would take the length of the repository's component for that of all. */
extern volatile struct bundle bundle;

/* Of memory.c: the bundle comes after all memory that there is. */
void place_bundle(void);

#endif
