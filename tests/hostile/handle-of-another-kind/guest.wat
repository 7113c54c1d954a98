(module
  (import "opcell:plugin/files@0.1.0" "open-root" (func $open_root (param i32 i32 i32)))
  (import "opcell:plugin/files@0.1.0" "[method]directory.open" (func $open (param i32 i32 i32 i32)))
  ;; @prelude
  (data (i32.const 4096) "workspace")
  (data (i32.const 4160) "plain.txt")
  (func (export "opcell:plugin/operations@0.1.0#invoke")
      (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (call $open_root (i32.const 4096) (i32.const 9) (i32.const 5120))
    (if (i32.load8_u (i32.const 5120)) (then (unreachable)))
    (call $open (i32.load (i32.const 5124)) (i32.const 4160) (i32.const 9) (i32.const 5184))
    (if (i32.load8_u (i32.const 5184)) (then (return (i32.const 2048))))
    (call $open (i32.load (i32.const 5188)) (i32.const 4160) (i32.const 9) (i32.const 5184))
    (i32.const 2048)))
