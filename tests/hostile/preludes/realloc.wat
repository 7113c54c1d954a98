;; A bump allocator from 64 KiB upwards. Traps when memory ends.
(global $heap (mut i32) (i32.const 65536))
(func (export "cabi_realloc") (param $old i32) (param $old-size i32) (param $align i32) (param $size i32) (result i32)
  (local $at i32)
  (local.set $at
    (i32.and
      (i32.add (global.get $heap) (i32.sub (local.get $align) (i32.const 1)))
      (i32.xor (i32.sub (local.get $align) (i32.const 1)) (i32.const -1))))
  (global.set $heap (i32.add (local.get $at) (local.get $size)))
  (local.get $at))
