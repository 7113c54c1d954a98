(module
  (import "opcell:plugin/log@0.1.0" "progress" (func $progress (param i64 i64 i32 i32)))
  ;; @prelude
  (func $down (param i64 i64 i64 i64) (result i64)
    (call $progress (local.get 0) (i64.const 0) (i32.const 0) (i32.const 0))
    (i64.add (call $down (local.get 1) (local.get 2) (local.get 3) (local.get 0)) (i64.const 1)))
  (func (export "opcell:plugin/operations@0.1.0#invoke")
      (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (drop (call $down (i64.const 1) (i64.const 2) (i64.const 3) (i64.const 4)))
    (unreachable)))
