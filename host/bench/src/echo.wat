;; The built-in guest of `opcell bench`: `echo/echo` returns its arguments as they came, `echo/log` calls its host a hundred times.
;; Written by hand, it is nearly all boundary and no guest: what surrounds a call stands out as it does with no plugin that works.
(module
  (import "opcell:plugin/log@0.1.0" "log" (func $log (param i32 i32 i32)))
  (memory (export "memory") 2)

  ;; A bump allocator from 64 KiB upwards: a cell lives for one call and frees nothing.
  (global $heap (mut i32) (i32.const 65536))
  (func (export "cabi_realloc") (param $old i32) (param $old-size i32) (param $align i32) (param $size i32) (result i32)
    (local $at i32)
    (local.set $at
      (i32.and
        (i32.add (global.get $heap) (i32.sub (local.get $align) (i32.const 1)))
        (i32.xor (i32.sub (local.get $align) (i32.const 1)) (i32.const -1))))
    (global.set $heap (i32.add (local.get $at) (local.get $size)))
    (if (i32.gt_u (global.get $heap) (i32.mul (memory.size) (i32.const 65536)))
      (then
        (drop (memory.grow (i32.add (i32.div_u (local.get $size) (i32.const 65536)) (i32.const 1))))))
    (local.get $at))

  ;; At 1024: list<operation-description> of two, 36 bytes each: id, summary, arguments-schema, data-schema, effects.
  (data (i32.const 1024) "\08\04\00\00\02\00\00\00")
  (data (i32.const 1032) "\c0\04\00\00\09\00\00\00" "\e0\04\00\00\16\00\00\00" "\00\05\00\00\11\00\00\00" "\00\05\00\00\11\00\00\00" "\00\00\00\00")
  (data (i32.const 1068) "\d0\04\00\00\08\00\00\00" "\20\05\00\00\15\00\00\00" "\00\05\00\00\11\00\00\00" "\00\05\00\00\11\00\00\00" "\00\00\00\00")
  (data (i32.const 1216) "echo/echo")
  (data (i32.const 1232) "echo/log")
  (data (i32.const 1248) "Returns its arguments.")
  (data (i32.const 1280) "{\"type\":\"object\"}")
  (data (i32.const 1312) "Logs a hundred times.")
  (func (export "opcell:plugin/operations@0.1.0#describe") (result i32)
    (i32.const 1024))

  ;; At 2048: result<success, failure> = success { data, summary: none, details: none }; the data is filled in by each call.
  (func (export "opcell:plugin/operations@0.1.0#invoke")
      (param $id i32) (param $id-length i32) (param $arguments i32) (param $arguments-length i32)
      (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (local $left i32)
    (if (i32.eq (local.get $id-length) (i32.const 8))
      (then
        (local.set $left (i32.const 100))
        (loop $again
          (call $log (i32.const 0) (i32.const 1216) (i32.const 9))
          (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))))
    (i32.store (i32.const 2052) (local.get $arguments))
    (i32.store (i32.const 2056) (local.get $arguments-length))
    (i32.const 2048)))
