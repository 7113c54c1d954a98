(module
  (import "opcell:plugin/files@0.1.0" "open-root" (func $open_root (param i32 i32 i32)))
  (import "opcell:plugin/files@0.1.0" "[method]directory.create" (func $create (param i32 i32 i32 i32)))
  (import "opcell:plugin/files@0.1.0" "[method]file.write" (func $write (param i32 i32 i32 i32)))
  ;; @prelude
  (data (i32.const 4096) "workspaceflood.bin")
  (func (export "opcell:plugin/operations@0.1.0#invoke")
      (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (local $file i32)
    (call $open_root (i32.const 4096) (i32.const 9) (i32.const 5120))
    (if (i32.load8_u (i32.const 5120)) (then (unreachable)))
    (call $create (i32.load (i32.const 5124)) (i32.const 4105) (i32.const 9) (i32.const 5184))
    (if (i32.load8_u (i32.const 5184)) (then (unreachable)))
    (local.set $file (i32.load (i32.const 5188)))
    ;; 60 KiB at a time until a write is refused; the host must refuse before the loop ends.
    (loop $again
      (call $write (local.get $file) (i32.const 65536) (i32.const 61440) (i32.const 5248))
      (br_if $again (i32.eqz (i32.load8_u (i32.const 5248)))))
    (i32.const 2048)))
