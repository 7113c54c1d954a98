(module
  ;; @judge-prelude
  (func (export "opcell:plugin/judges@0.1.0#judge")
      (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (loop $forever (br $forever))
    (unreachable)))
