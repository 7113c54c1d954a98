(module
  (import "wasi:cli/environment@0.2.0" "get-environment" (func $environment (param i32)))
  (import "wasi:cli/environment@0.2.0" "get-arguments" (func $arguments (param i32)))
  (import "wasi:filesystem/preopens@0.2.0" "get-directories" (func $directories (param i32)))
  (import "wasi:cli/stdin@0.2.0" "get-stdin" (func $stdin (result i32)))
  (import "wasi:io/streams@0.2.0" "[method]input-stream.blocking-read" (func $read (param i32 i64 i32)))
  ;; @prelude
  ;; Each of the lists is empty, and standard input is at its end, or this traps.
  (func $empty (if (i32.load (i32.const 5124)) (then (unreachable))))
  (func (export "opcell:plugin/operations@0.1.0#invoke")
      (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (call $environment (i32.const 5120)) (call $empty)
    (call $arguments (i32.const 5120)) (call $empty)
    (call $directories (i32.const 5120)) (call $empty)
    (call $read (call $stdin) (i64.const 100) (i32.const 5120))
    (if (i32.eqz (i32.load8_u (i32.const 5120))) (then (unreachable)))
    (i32.const 2048)))
