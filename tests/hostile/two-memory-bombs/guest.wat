(module
  ;; @prelude
  (memory $other 1)
  (func (export "opcell:plugin/operations@0.1.0#invoke")
      (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    ;; Six megabytes in the first memory, and as much in the second: refused, or else the call returns.
    (if (i32.lt_s (memory.grow 0 (i32.const 96)) (i32.const 0)) (then (return (i32.const 2048))))
    (if (i32.lt_s (memory.grow $other (i32.const 96)) (i32.const 0)) (then (unreachable)))
    (i32.const 2048)))
