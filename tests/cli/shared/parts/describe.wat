  (func (export "opcell:plugin/operations@0.1.0#describe") (result i32)
    (call $entry (i32.const 2048)) (i32.store (i32.const 2040) (i32.const 2048)) (i32.store (i32.const 2044) (i32.const 1)) (i32.const 2040))
