(module
  ;; @prelude
  (func $bomb (param i32) (result i32)
    (local i64 i64 i64 i64 i64 i64 i64 i64)
    ;; @repeat 6000
    (block (br_if 0 (i32.eqz (local.get 0))) (local.set 1 (i64.add (local.get 2) (local.get 3))) (local.set 2 (i64.mul (local.get 1) (local.get 4))) (local.set 3 (i64.xor (local.get 2) (local.get 5))))
    ;; @end
    (local.get 0))
  (func (export "opcell:plugin/operations@0.1.0#invoke")
      (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (unreachable)))
