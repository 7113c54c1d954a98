(module
  (import "opcell:plugin/log@0.1.0" "log" (func $log (param i32 i32 i32)))
  ;; @prelude
  (data (i32.const 4096) "fine\1b[2J\1b]0;owned\07\0d\0aerror: forged\00\c2\9b31m")
  (func (export "opcell:plugin/operations@0.1.0#invoke")
      (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (call $log (i32.const 2) (i32.const 4096) (i32.const 40))
    (i32.const 2048)))
