(module
  ;; @prelude
  (@custom "opcell:manifest"
    "{\"schema\":1,\"name\":\"hostile\",\"version\":\"1\",\"limits\":{\"\\u001b[2J\":1}}")
  (func (export "opcell:plugin/operations@0.1.0#invoke")
      (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (unreachable)))
