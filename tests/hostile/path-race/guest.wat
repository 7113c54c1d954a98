(module
  (import "opcell:plugin/files@0.1.0" "open-root" (func $open_root (param i32 i32 i32)))
  (import "opcell:plugin/files@0.1.0" "[method]directory.open" (func $open (param i32 i32 i32 i32)))
  ;; @prelude
  (data (i32.const 4096) "workspace")
  (data (i32.const 4160) "sub/secret.txt")
  (func (export "opcell:plugin/operations@0.1.0#invoke")
      (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (local $left i32)
    (call $open_root (i32.const 4096) (i32.const 9) (i32.const 5120))
    (if (i32.load8_u (i32.const 5120)) (then (unreachable)))
    (local.set $left (i32.const 5000))
    (loop $again
      ;; `sub` has no such file; what the link leads to has.
      (call $open (i32.load (i32.const 5124)) (i32.const 4160) (i32.const 14) (i32.const 5184))
      (if (i32.eqz (i32.load8_u (i32.const 5184))) (then (unreachable)))
      ;; The texts of the refusals are not kept.
      (global.set $heap (i32.const 65536))
      (local.set $left (i32.sub (local.get $left) (i32.const 1)))
      (br_if $again (local.get $left)))
    (i32.const 2048)))
