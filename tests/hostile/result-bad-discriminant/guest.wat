(module
  ;; @prelude
  (func (export "opcell:plugin/operations@0.1.0#invoke")
      (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (i32.store8 (i32.const 3072) (i32.const 9))
    (i32.const 3072)))
