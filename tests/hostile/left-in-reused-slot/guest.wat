(module
  ;; @prelude
  (table $table 16 funcref)
  (global $called (mut i32) (i32.const 0))
  (func $something)
  (elem declare func $something)
  ;; A call that finds traces of an earlier one returns a result, which the case does not expect. Small enough for the
  ;; pool to keep its memory resident, so that its slot is lent again without being unmapped.
  (func (export "opcell:plugin/operations@0.1.0#invoke")
      (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (local $at i32)
    (if (global.get $called) (then (return (i32.const 2048))))
    (if (i32.eqz (ref.is_null (table.get $table (i32.const 7)))) (then (return (i32.const 2048))))
    (if (i32.lt_s (memory.grow (i32.const 2)) (i32.const 0)) (then (unreachable)))
    (local.set $at (i32.const 131072))
    (loop $next
      (if (i64.ne (i64.load (local.get $at)) (i64.const 0)) (then (return (i32.const 2048))))
      (local.set $at (i32.add (local.get $at) (i32.const 8)))
      (br_if $next (i32.lt_u (local.get $at) (i32.const 262144))))
    (global.set $called (i32.const 1))
    (table.set $table (i32.const 7) (ref.func $something))
    (memory.fill (i32.const 131072) (i32.const 0x53) (i32.const 131072))
    ;; One byte that is no UTF-8: an error after which the engine itself would let the instance be called again.
    (i32.store8 (i32.const 2112) (i32.const 0xff))
    (i32.const 2048)))
