/* The part of a C library that would call a system: time comes from the host, and there is no terminal and no file.
 *
 * These definitions come before those of wasi-libc, so that its members that import WASI preview 1 are never linked.
 */
#include "host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

int gettimeofday(struct timeval *restrict into, void *restrict zone) {
  (void)zone;
  struct wall_clock now = wall_clock_now();
  into->tv_sec = (time_t)now.seconds;
  into->tv_usec = (suseconds_t)(now.nanoseconds / 1000);
  return 0;
}

int clock_gettime(clockid_t clock, struct timespec *into) {
  (void)clock;
  uint64_t now = monotonic_now();
  into->tv_sec = (time_t)(now / 1000000000);
  into->tv_nsec = (long)(now % 1000000000);
  return 0;
}

/* Programs run in UTC: a zone of the machine would make results differ by where they are computed. */
struct tm *localtime_r(const time_t *restrict time, struct tm *restrict into) {
  (void)time;
  memset(into, 0, sizeof *into);
  return into;
}

_Noreturn void abort(void) { __builtin_trap(); }

int fprintf(FILE *restrict file, const char *restrict format, ...) {
  (void)file, (void)format;
  return 0;
}

int printf(const char *restrict format, ...) {
  (void)format;
  return 0;
}

int fputc(int byte, FILE *file) {
  (void)file;
  return byte;
}

int putchar(int byte) { return byte; }

int puts(const char *text) {
  (void)text;
  return 0;
}

int fputs(const char *restrict text, FILE *restrict file) {
  (void)text, (void)file;
  return 0;
}

int fflush(FILE *file) {
  (void)file;
  return 0;
}

/* The ends of the streams of stdio, by which the members that print would import WASI preview 1. */
size_t __stdio_write(FILE *file, const unsigned char *bytes, size_t length) {
  (void)file, (void)bytes;
  return length;
}

off_t __stdio_seek(FILE *file, off_t offset, int from) {
  (void)file, (void)offset, (void)from;
  return -1;
}

int __stdio_close(FILE *file) {
  (void)file;
  return 0;
}
