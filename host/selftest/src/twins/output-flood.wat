;; Writes 64 KiB to its standard output, forever.
(module (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 2)
  (func (export "run")
    (memory.fill (i32.const 64) (i32.const 120) (i32.const 65536))
    (i32.store (i32.const 0) (i32.const 64)) (i32.store (i32.const 4) (i32.const 65536))
    (loop $again
      (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))
      (br $again))))
