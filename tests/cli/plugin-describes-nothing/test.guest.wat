;; world operation-plugin
(module
  ;; @memory
  ;; @entry
  (func (export "opcell:plugin/operations@0.1.0#describe") (result i32)
    (i32.store (i32.const 2040) (i32.const 2048)) (i32.store (i32.const 2044) (i32.const 0)) (i32.const 2040))
  ;; @invoke
)
