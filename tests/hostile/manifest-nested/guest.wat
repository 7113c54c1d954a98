(module
  ;; @prelude
  (@custom "opcell:manifest"
  ;; @repeat 1000
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
  ;; @end
  )
  (func (export "opcell:plugin/operations@0.1.0#invoke")
      (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (unreachable)))
