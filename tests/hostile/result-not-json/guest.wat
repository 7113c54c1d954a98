(module
  ;; @prelude
  (data (i32.const 4096) "{]")
  (func (export "opcell:plugin/operations@0.1.0#invoke")
      (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (i32.store8 (i32.const 3072) (i32.const 0))
    (i32.store (i32.const 3076) (i32.const 4096))
    (i32.store (i32.const 3080) (i32.const 2))
    (i32.const 3072)))
