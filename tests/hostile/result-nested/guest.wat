(module
  ;; @prelude
  (func (export "opcell:plugin/operations@0.1.0#invoke")
      (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (drop (memory.grow (i32.const 4)))
    (memory.fill (i32.const 131072) (i32.const 0x5b) (i32.const 100000))
    (i32.store8 (i32.const 3072) (i32.const 0))
    (i32.store (i32.const 3076) (i32.const 131072))
    (i32.store (i32.const 3080) (i32.const 100000))
    (i32.const 3072)))
