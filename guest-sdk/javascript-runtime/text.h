/* Growing texts, and the repair of texts that are not Unicode. */
#ifndef TEXT_H
#define TEXT_H

#include <stdbool.h>
#include <stddef.h>

struct text {
  char *data;
  size_t length, room;
  /* Set when there was no memory for a part of it. */
  bool cut;
};

void text_add(struct text *text, const char *data, size_t length);
void text_add_string(struct text *text, const char *string);
void text_add_number(struct text *text, unsigned number);
/* Adds bytes as a JSON string, quotes included. */
void text_add_json(struct text *text, const char *data, size_t length);

/* Replaces encoded surrogates, which no UTF-8 text has, by U+FFFD of the same length. */
void repair_utf8(char *data, size_t length);
/* Replaces escapes of surrogates without a partner, which no reader of JSON has to take, by `\ufffd`. */
void repair_json(char *data, size_t length);
/* The most bytes, up to `most`, that do not end inside of a character. */
size_t whole_characters(const char *data, size_t length, size_t most);

#endif
