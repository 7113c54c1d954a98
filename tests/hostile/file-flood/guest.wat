(module
  (import "opcell:plugin/files@0.1.0" "open-root" (func $open_root (param i32 i32 i32)))
  (import "opcell:plugin/files@0.1.0" "[method]directory.create" (func $create (param i32 i32 i32 i32)))
  (import "opcell:plugin/files@0.1.0" "[method]directory.create-directory" (func $make (param i32 i32 i32 i32)))
  (import "opcell:plugin/files@0.1.0" "[resource-drop]file" (func $close (param i32)))
  ;; @prelude
  (data (i32.const 4096) "workspace")
  (data (i32.const 4160) "f00000000")
  ;; Counts up the digits of the name.
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
    (call $open_root (i32.const 4096) (i32.const 9) (i32.const 5120))
    (if (i32.load8_u (i32.const 5120)) (then (unreachable)))
    (loop $again
      ;; 512 KiB pay for 512 of both together: one more is an escape.
      (if (i32.gt_u (local.get $made) (i32.const 512)) (then (unreachable)))
      (call $next)
      (call $create (i32.load (i32.const 5124)) (i32.const 4160) (i32.const 9) (i32.const 5184))
      (if (i32.load8_u (i32.const 5184)) (then (return (i32.const 2048))))
      (call $close (i32.load (i32.const 5188)))
      (call $next)
      (call $make (i32.load (i32.const 5124)) (i32.const 4160) (i32.const 9) (i32.const 5184))
      (if (i32.load8_u (i32.const 5184)) (then (return (i32.const 2048))))
      (local.set $made (i32.add (local.get $made) (i32.const 2)))
      (br $again))
    (unreachable)))
