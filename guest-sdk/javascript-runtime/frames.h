/* The places from which a function was called, kept without being written: a text of them is needed seldom. */
#ifndef FRAMES_H
#define FRAMES_H

#include "quickjs.h"

enum { MAX_FRAMES = 8 };

struct frames {
  uint32_t count;
  struct {
    JSValue function;
    uint32_t pc;
  } of[MAX_FRAMES];
};

/* Takes the functions that are being called, the innermost first. */
void frames_take(JSContext *context, struct frames *frames);
void frames_free(JSContext *context, struct frames *frames);
/* The text that the property `stack` of an error has. */
JSValue frames_text(JSContext *context, const struct frames *frames);

#endif
