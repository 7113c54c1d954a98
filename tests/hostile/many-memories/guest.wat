(module
  ;; @prelude
  ;; @repeat 99
  (memory 16)
  ;; @end
  (func (export "opcell:plugin/operations@0.1.0#invoke")
      (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (unreachable)))
