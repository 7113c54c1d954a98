(module
  ;; @prelude
  (data (i32.const 4096) "evil\1b[2J\1b]0;owned\07\00done")
  (func (export "opcell:plugin/operations@0.1.0#invoke")
      (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (i32.store8 (i32.const 3072) (i32.const 1))
    (i32.store (i32.const 3076) (i32.const 4096))
    (i32.store (i32.const 3080) (i32.const 4))
    (i32.store (i32.const 3084) (i32.const 4096))
    (i32.store (i32.const 3088) (i32.const 23))
    (i32.store8 (i32.const 3092) (i32.const 0))
    (i32.const 3072)))
