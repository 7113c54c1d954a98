(module
  (import "opcell:plugin/files@0.1.0" "[method]directory.open" (func $open (param i32 i32 i32 i32)))
  ;; @prelude
  (data (i32.const 4096) "secret.txt")
  (func (export "opcell:plugin/operations@0.1.0#invoke")
      (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (call $open (i32.const 77) (i32.const 4096) (i32.const 10) (i32.const 5120))
    (i32.const 2048)))
