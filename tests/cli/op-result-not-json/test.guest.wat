;; world operation-plugin
(module
  ;; @memory
  ;; @entry
  ;; @describe
  (data (i32.const 64) "no json")
  (func (export "opcell:plugin/operations@0.1.0#invoke")
    (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (call $ok (i32.const 64) (i32.const 7))))
