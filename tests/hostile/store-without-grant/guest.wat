(module
  (import "opcell:plugin/store@0.2.0" "set" (func $set (param i32 i32 i32 i32 i32 i32 i32)))
  (import "opcell:plugin/store@0.2.0" "get" (func $get (param i32 i32 i32 i32 i32)))
  ;; @prelude
  (data (i32.const 4096) "kept")
  (func (export "opcell:plugin/operations@0.1.0#invoke")
      (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (call $set (i32.const 4096) (i32.const 4) (i32.const 4096) (i32.const 4) (i32.const 0) (i32.const 10) (i32.const 5120))
    ;; An error of the case `denied`, or the host gave what it must not.
    (if (i32.ne (i32.load8_u (i32.const 5120)) (i32.const 1)) (then (unreachable)))
    (if (i32.load8_u (i32.const 5128)) (then (unreachable)))
    (call $get (i32.const 4096) (i32.const 4) (i32.const 4096) (i32.const 4) (i32.const 5120))
    (if (i32.ne (i32.load8_u (i32.const 5120)) (i32.const 1)) (then (unreachable)))
    (if (i32.load8_u (i32.const 5128)) (then (unreachable)))
    (i32.const 2048)))
