(module
  ;; @prelude
  (type $f (func)) (func (param (ref $f)) (call_ref $f (local.get 0)))
  (func (export "opcell:plugin/operations@0.1.0#invoke")
      (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (unreachable)))
