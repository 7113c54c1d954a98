(module
  (import "opcell:plugin/tools@0.1.0" "call" (func $call (param i32 i32 i32 i32 i32)))
  ;; @prelude
  (data (i32.const 4096) "selftest.secret{}")
  (func (export "opcell:plugin/operations@0.1.0#invoke")
      (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (call $call (i32.const 4096) (i32.const 15) (i32.const 4111) (i32.const 2) (i32.const 5120))
    ;; result<json, tool-error>: a success would be discriminant 0.
    (if (i32.eqz (i32.load8_u (i32.const 5120))) (then (unreachable)))
    (i32.const 2048)))
