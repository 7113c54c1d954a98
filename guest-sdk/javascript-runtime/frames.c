/* The engine, with what it has no function for: the places of callers. It writes them when it makes an error, which takes
 * longer than all else of a call that succeeds.
 */
#include "quickjs.c"

#include "frames.h"

void frames_take(JSContext *context, struct frames *frames) {
  frames->count = 0;
  for (JSStackFrame *frame = context->rt->current_stack_frame; frame && frames->count < MAX_FRAMES; frame = frame->prev_frame) {
    JSObject *function = JS_VALUE_GET_OBJ(frame->cur_func);
    if (!js_class_has_bytecode(function->class_id) || !frame->cur_pc) continue;
    const JSFunctionBytecode *code = function->u.func.function_bytecode;
    frames->of[frames->count].function = js_dup(frame->cur_func);
    frames->of[frames->count++].pc = (uint32_t)(frame->cur_pc - code->byte_code_buf - 1);
  }
}

void frames_free(JSContext *context, struct frames *frames) {
  while (frames->count) JS_FreeValue(context, frames->of[--frames->count].function);
}

JSValue frames_text(JSContext *context, const struct frames *frames) {
  DynBuf text;
  js_dbuf_init(context, &text);
  for (uint32_t i = 0; i < frames->count; i++) {
    JSFunctionBytecode *code = JS_VALUE_GET_OBJ(frames->of[i].function)->u.func.function_bytecode;
    const char *name = get_func_name(context, frames->of[i].function);
    const char *file = code->filename ? JS_AtomToCString(context, code->filename) : 0;
    int column, line = find_line_num(context, code, frames->of[i].pc, &column);
    dbuf_printf(&text, "    at %s (%s:%d:%d)\n", name && *name ? name : "<anonymous>", file ? file : "<null>", line, column);
    JS_FreeCString(context, name);
    JS_FreeCString(context, file);
  }
  JSValue made = dbuf_error(&text) ? JS_NULL : JS_NewStringLen(context, (char *)text.buf, text.size);
  dbuf_free(&text);
  return made;
}
