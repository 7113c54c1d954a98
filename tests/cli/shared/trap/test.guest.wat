;; world operation-plugin
(module
  ;; @memory
  ;; @entry
  ;; @describe
  (func (export "opcell:plugin/operations@0.1.0#invoke")
    (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (unreachable)))
