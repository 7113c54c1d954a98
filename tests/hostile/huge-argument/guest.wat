(module
  (import "opcell:plugin/log@0.1.0" "log" (func $log (param i32 i32 i32)))
  ;; @prelude
  (func (export "opcell:plugin/operations@0.1.0#invoke")
      (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (drop (memory.grow (i32.const 300)))
    (memory.fill (i32.const 131072) (i32.const 0x41) (i32.const 16777216))
    (call $log (i32.const 2) (i32.const 131072) (i32.const 16777216))
    (i32.const 2048)))
