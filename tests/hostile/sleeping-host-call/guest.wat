(module
  (import "opcell:plugin/tools@0.1.0" "call" (func $call (param i32 i32 i32 i32 i32)))
  ;; @prelude
  (data (i32.const 4096) "selftest.sleep{}")
  (func (export "opcell:plugin/operations@0.1.0#invoke")
      (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (call $call (i32.const 4096) (i32.const 14) (i32.const 4110) (i32.const 2) (i32.const 5120))
    (i32.const 2048)))
