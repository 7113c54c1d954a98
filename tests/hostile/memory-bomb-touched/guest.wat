(module
  ;; @prelude
  (func (export "opcell:plugin/operations@0.1.0#invoke")
      (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (local $page i32)
    (loop $more
      (local.set $page (memory.grow (i32.const 1)))
      (if (i32.eq (local.get $page) (i32.const -1)) (then (unreachable)))
      (memory.fill (i32.shl (local.get $page) (i32.const 16)) (i32.const 1) (i32.const 65536))
      (br $more))
    (unreachable)))
