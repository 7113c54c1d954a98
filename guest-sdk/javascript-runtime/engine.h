/* The parts of code.c that programs and source plugins share. */
#ifndef ENGINE_H
#define ENGINE_H

#include "opcell.h"
#include "quickjs.h"
#include "text.h"

extern JSContext *js;

/* Runs jobs, makes calls, and runs timers while the promise waits. Returns false if an exception ended it. */
bool settle(JSValueConst promise);
/* A value as text that is Unicode; `data` is null when it cannot be had, with the exception dropped. */
opcell_text shown(JSValueConst value);
/* As the console shows a value. */
opcell_text displayed(JSValueConst value);
/* A value as JSON; `data` is null when there is none, and the exception is left. */
opcell_text json_of(JSValueConst value);
/* A property that is a string; no text where there is none. */
opcell_text property(JSValueConst object, const char *name);
JSValue text_value(opcell_text text);
/* The failure of a program that ended with this exception. */
opcell_reply failure_of(JSValue exception, const char *reason);
/* Logs the rejections that nothing has handled, except one. */
void log_rejections(JSValueConst own);

/* Of source.c: the module of a name that a source plugin imports. */
JSModuleDef *source_module(JSContext *context, const char *name);
/* Of source.c: makes the SDK of source plugins in an engine that starts. `host` has the functions of the engine, and gets
   those of the SDK. */
bool source_start(JSValueConst host);
/* Of source.c: fills the tables before an export is called, and ends the cell if that fails. `id` is that of the call, or
   no text; `about` is the description in the bundle. */
void source_prepare(opcell_text id, const char *file_name, opcell_text text, JSValueConst about);

#endif
