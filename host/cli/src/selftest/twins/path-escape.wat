;; Opens `../secret.txt` and `link`, a symbolic link to it, beneath the preopened directory; a success is an `unreachable`.
(module (import "wasi_snapshot_preview1" "path_open"
    (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (memory (export "memory") 1) (data (i32.const 0) "../secret.txtlink")
  (func $try (param $at i32) (param $length i32) (param $follow i32)
    (if (i32.eqz (call $open (i32.const 3) (local.get $follow) (local.get $at) (local.get $length)
          (i32.const 0) (i64.const 2) (i64.const 2) (i32.const 0) (i32.const 64)))
      (then unreachable)))
  (func (export "run")
    (call $try (i32.const 0) (i32.const 13) (i32.const 0))
    (call $try (i32.const 13) (i32.const 4) (i32.const 1))))
