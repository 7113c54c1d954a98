(module
  ;; @prelude-without-describe
  ;; One entry: hostile/run, with a data schema at 8192.
  (data (i32.const 1024) "\08\04\00\00\01\00\00\00")
  (data (i32.const 1032) "\40\04\00\00\0b\00\00\00\50\04\00\00\14\00\00\00")
  (data (i32.const 1048) "\70\04\00\00\02\00\00\00\00\20\00\00\81\07\00\00\00\00\00\00")
  (data (i32.const 1088) "hostile/run")
  (data (i32.const 1104) "Does what it can not")
  (data (i32.const 1136) "{}")
  (data (i32.const 8192) "{\"unevaluatedProperties\":false,\"anyOf\":[{\"properties\":{\"x\":{\"unevaluatedProperties\":false,\"anyOf\":[{\"properties\":{\"x\":{\"unevaluatedProperties\":false,\"anyOf\":[{\"properties\":{\"x\":{\"unevaluatedProperties\":false,\"anyOf\":[{\"properties\":{\"x\":{\"unevaluatedProperties\":false,\"anyOf\":[{\"properties\":{\"x\":{\"unevaluatedProperties\":false,\"anyOf\":[{\"properties\":{\"x\":{\"unevaluatedProperties\":false,\"anyOf\":[{\"properties\":{\"x\":{\"unevaluatedProperties\":false,\"anyOf\":[{\"properties\":{\"x\":{\"unevaluatedProperties\":false,\"anyOf\":[{\"properties\":{\"x\":{\"unevaluatedProperties\":false,\"anyOf\":[{\"properties\":{\"x\":{\"unevaluatedProperties\":false,\"anyOf\":[{\"properties\":{\"x\":{\"unevaluatedProperties\":false,\"anyOf\":[{\"properties\":{\"x\":{\"unevaluatedProperties\":false,\"anyOf\":[{\"properties\":{\"x\":{\"unevaluatedProperties\":false,\"anyOf\":[{\"properties\":{\"x\":{\"unevaluatedProperties\":false,\"anyOf\":[{\"properties\":{\"x\":{\"unevaluatedProperties\":false,\"anyOf\":[{\"properties\":{\"x\":{\"unevaluatedProperties\":false,\"anyOf\":[{\"properties\":{\"x\":{\"unevaluatedProperties\":false,\"anyOf\":[{\"properties\":{\"x\":{\"unevaluatedProperties\":false,\"anyOf\":[{\"properties\":{\"x\":{\"unevaluatedProperties\":false,\"anyOf\":[{\"properties\":{\"x\":{\"unevaluatedProperties\":false,\"anyOf\":[{\"properties\":{\"x\":{\"unevaluatedProperties\":false,\"anyOf\":[{\"properties\":{\"x\":{\"unevaluatedProperties\":false,\"anyOf\":[{\"properties\":{\"x\":{\"unevaluatedProperties\":false,\"anyOf\":[{\"properties\":{\"x\":{\"unevaluatedProperties\":false,\"anyOf\":[{\"properties\":{\"x\":{\"unevaluatedProperties\":false,\"anyOf\":[{\"properties\":{\"x\":{\"unevaluatedProperties\":false,\"anyOf\":[{\"properties\":{\"x\":{\"unevaluatedProperties\":false,\"anyOf\":[{\"properties\":{\"x\":{\"unevaluatedProperties\":false,\"anyOf\":[{\"properties\":{\"x\":{\"unevaluatedProperties\":false,\"anyOf\":[{\"properties\":{\"x\":{\"unevaluatedProperties\":false}}}]}}}]}}}]}}}]}}}]}}}]}}}]}}}]}}}]}}}]}}}]}}}]}}}]}}}]}}}]}}}]}}}]}}}]}}}]}}}]}}}]}}}]}}}]}}}]}}}]}}}]}}}]}}}]}}}]}}}]}")
  (func (export "opcell:plugin/operations@0.1.0#describe") (result i32)
    (i32.const 1024))
  (func (export "opcell:plugin/operations@0.1.0#invoke")
      (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (unreachable)))
