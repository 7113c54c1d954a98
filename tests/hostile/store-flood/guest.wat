(module
  (import "opcell:plugin/store@0.2.0" "set" (func $set (param i32 i32 i32 i32 i32 i32 i32)))
  (import "opcell:plugin/store@0.2.0" "get" (func $get (param i32 i32 i32 i32 i32)))
  ;; @prelude
  (data (i32.const 4096) "kept")
  (data (i32.const 4160) "f00000000")
  ;; Counts up the digits of the key.
  (func $next (local $at i32)
    (local.set $at (i32.const 4168))
    (loop $digit
      (i32.store8 (local.get $at) (i32.add (i32.load8_u (local.get $at)) (i32.const 1)))
      (if (i32.gt_u (i32.load8_u (local.get $at)) (i32.const 57))
        (then
          (i32.store8 (local.get $at) (i32.const 48))
          (local.set $at (i32.sub (local.get $at) (i32.const 1)))
          (br $digit)))))
  (func (export "opcell:plugin/operations@0.1.0#invoke")
      (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (local $made i32)
    (block $full
      (loop $again
        ;; Its quota of 64 KiB pays for 64 entries of a value of 1000 bytes: one more is an escape.
        (if (i32.gt_u (local.get $made) (i32.const 64)) (then (unreachable)))
        (call $next)
        (call $set (i32.const 4096) (i32.const 4) (i32.const 4160) (i32.const 9) (i32.const 0) (i32.const 1000)
          (i32.const 5120))
        (br_if $full (i32.load8_u (i32.const 5120)))
        (local.set $made (i32.add (local.get $made) (i32.const 1)))
        (br $again)))
    (loop $again
      (call $get (i32.const 4096) (i32.const 4) (i32.const 4096) (i32.const 4) (i32.const 5120))
      (br $again))
    (unreachable)))
