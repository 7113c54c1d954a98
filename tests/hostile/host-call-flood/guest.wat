(module
  (import "opcell:plugin/tools@0.1.0" "list" (func $list (param i32)))
  ;; @prelude
  (func (export "opcell:plugin/operations@0.1.0#invoke")
      (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (loop $again
      (call $list (i32.const 5120))
      (br $again))
    (unreachable)))
