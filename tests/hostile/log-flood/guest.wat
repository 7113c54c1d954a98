(module
  (import "opcell:plugin/log@0.1.0" "log" (func $log (param i32 i32 i32)))
  ;; @prelude
  (func (export "opcell:plugin/operations@0.1.0#invoke")
      (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (memory.fill (i32.const 8192) (i32.const 0x41) (i32.const 4096))
    (loop $again
      (call $log (i32.const 2) (i32.const 8192) (i32.const 4096))
      (br $again))
    (unreachable)))
