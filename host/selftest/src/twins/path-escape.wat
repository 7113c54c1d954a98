;; Opens `../secret.txt` and `link`, a symbolic link to it, beneath the preopened directory; a success is an `unreachable`.
;; Most hosts number that directory 3; one that has something of its own first may say 4 or 5.
(module (import "wasi_snapshot_preview1" "path_open"
    (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (memory (export "memory") 1) (data (i32.const 0) "../secret.txtlink")
  (func $try (param $directory i32) (param $at i32) (param $length i32) (param $follow i32)
    (if (i32.eqz (call $open (local.get $directory) (local.get $follow) (local.get $at) (local.get $length)
          (i32.const 0) (i64.const 2) (i64.const 2) (i32.const 0) (i32.const 64)))
      (then unreachable)))
  (func (export "run") (local $directory i32)
    (local.set $directory (i32.const 3))
    (loop $next
      (call $try (local.get $directory) (i32.const 0) (i32.const 13) (i32.const 0))
      (call $try (local.get $directory) (i32.const 13) (i32.const 4) (i32.const 1))
      (local.set $directory (i32.add (local.get $directory) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $directory) (i32.const 6))))))
