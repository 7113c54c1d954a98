(module
  ;; @judge-prelude
  (data (i32.const 4096) "ROOT")
  (func (export "opcell:plugin/judges@0.1.0#judge")
      (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (i32.store8 (i32.const 3072) (i32.const 0))
    (i32.store8 (i32.const 3076) (i32.const 0))
    (i32.store (i32.const 3080) (i32.const 4096))
    (i32.store (i32.const 3084) (i32.const 4))
    (i32.store8 (i32.const 3088) (i32.const 0))
    (i32.const 3072)))
