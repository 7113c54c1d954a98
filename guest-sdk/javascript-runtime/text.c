#include "text.h"

#include <stdlib.h>
#include <string.h>

void text_add(struct text *text, const char *data, size_t length) {
  if (text->length + length + 1 > text->room) {
    size_t room = (text->length + length + 1) * 2;
    char *larger = realloc(text->data, room);
    if (!larger) {
      text->cut = true;
      return;
    }
    text->data = larger;
    text->room = room;
  }
  memcpy(text->data + text->length, data, length);
  text->length += length;
  text->data[text->length] = 0;
}

void text_add_string(struct text *text, const char *string) { text_add(text, string, strlen(string)); }

void text_add_number(struct text *text, unsigned number) {
  char digits[10];
  size_t at = sizeof digits;
  do digits[--at] = (char)('0' + number % 10);
  while (number /= 10);
  text_add(text, digits + at, sizeof digits - at);
}

void text_add_json(struct text *text, const char *data, size_t length) {
  static const char digits[] = "0123456789abcdef";
  text_add(text, "\"", 1);
  size_t from = 0;
  for (size_t at = 0; at < length; at++) {
    unsigned char byte = (unsigned char)data[at];
    if (byte >= 0x20 && byte != '"' && byte != '\\') continue;
    text_add(text, data + from, at - from);
    from = at + 1;
    if (byte >= 0x20) {
      const char escape[] = {'\\', (char)byte};
      text_add(text, escape, sizeof escape);
    } else {
      const char escape[] = {'\\', 'u', '0', '0', digits[byte >> 4], digits[byte & 15]};
      text_add(text, escape, sizeof escape);
    }
  }
  text_add(text, data + from, length - from);
  text_add(text, "\"", 1);
}

void repair_utf8(char *data, size_t length) {
  for (size_t at = 0; at + 2 < length; at++)
    if ((unsigned char)data[at] == 0xed && (unsigned char)data[at + 1] >= 0xa0) memcpy(data + at, "\xef\xbf\xbd", 3);
}

/* The code unit of the escape at `at`; -1 where there is none. */
static int escape_at(const char *data, size_t length, size_t at) {
  if (at + 6 > length || data[at] != '\\' || data[at + 1] != 'u') return -1;
  int unit = 0;
  for (size_t i = at + 2; i < at + 6; i++) {
    char c = data[i];
    unit = unit << 4 | (c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
  }
  return unit;
}

void repair_json(char *data, size_t length) {
  for (size_t at = 0; at < length; at++) {
    if (data[at] != '\\') continue;
    int unit = escape_at(data, length, at);
    if (unit < 0) {
      at++;
      continue;
    }
    int next = unit >= 0xd800 && unit < 0xdc00 ? escape_at(data, length, at + 6) : -1;
    if (next >= 0xdc00 && next < 0xe000) at += 6;
    else if (unit >= 0xd800 && unit < 0xe000) memcpy(data + at, "\\ufffd", 6);
    at += 5;
  }
}

size_t whole_characters(const char *data, size_t length, size_t most) {
  if (length <= most) return length;
  while (most && ((unsigned char)data[most] & 0xc0) == 0x80) most--;
  return most;
}
