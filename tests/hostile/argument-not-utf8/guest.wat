(module
  (import "opcell:plugin/log@0.1.0" "log" (func $log (param i32 i32 i32)))
  ;; @prelude
  (func (export "opcell:plugin/operations@0.1.0#invoke")
      (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (i32.store8 (i32.const 4096) (i32.const 0xff))
    (call $log (i32.const 2) (i32.const 4096) (i32.const 1))
    (i32.const 2048)))
