(module
  ;; @prelude
  (@custom "opcell:manifest"
    "{\"schema\":1,\"name\":\"hostile\",\"version\":\"1\",\"capabilities\":{\"tools\":[{\"name\":\"a\",\"reason\":\"b\"}"
  ;; @repeat 80000
    ",{\"name\":\"a\",\"reason\":\"b\"}"
  ;; @end
    "]}}")
  (func (export "opcell:plugin/operations@0.1.0#invoke")
      (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (unreachable)))
