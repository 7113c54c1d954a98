(module
  ;; @prelude-without-describe
  ;; One entry: hostile/run, with a data schema at 8192.
  (data (i32.const 1024) "\08\04\00\00\01\00\00\00")
  (data (i32.const 1032) "\40\04\00\00\0b\00\00\00\50\04\00\00\14\00\00\00")
  (data (i32.const 1048) "\70\04\00\00\02\00\00\00\00\20\00\00\2a\05\00\00\00\00\00\00")
  (data (i32.const 1088) "hostile/run")
  (data (i32.const 1104) "Does what it can not")
  (data (i32.const 1136) "{}")
  (data (i32.const 8192) "{\"unevaluatedProperties\":false,\"$ref\":\"#/$defs/a0\",\"$defs\":{\"a0\":{\"allOf\":[{\"$ref\":\"#/$defs/a1\"},{\"$ref\":\"#/$defs/a1\"}]},\"a1\":{\"allOf\":[{\"$ref\":\"#/$defs/a2\"},{\"$ref\":\"#/$defs/a2\"}]},\"a2\":{\"allOf\":[{\"$ref\":\"#/$defs/a3\"},{\"$ref\":\"#/$defs/a3\"}]},\"a3\":{\"allOf\":[{\"$ref\":\"#/$defs/a4\"},{\"$ref\":\"#/$defs/a4\"}]},\"a4\":{\"allOf\":[{\"$ref\":\"#/$defs/a5\"},{\"$ref\":\"#/$defs/a5\"}]},\"a5\":{\"allOf\":[{\"$ref\":\"#/$defs/a6\"},{\"$ref\":\"#/$defs/a6\"}]},\"a6\":{\"allOf\":[{\"$ref\":\"#/$defs/a7\"},{\"$ref\":\"#/$defs/a7\"}]},\"a7\":{\"allOf\":[{\"$ref\":\"#/$defs/a8\"},{\"$ref\":\"#/$defs/a8\"}]},\"a8\":{\"allOf\":[{\"$ref\":\"#/$defs/a9\"},{\"$ref\":\"#/$defs/a9\"}]},\"a9\":{\"allOf\":[{\"$ref\":\"#/$defs/a10\"},{\"$ref\":\"#/$defs/a10\"}]},\"a10\":{\"allOf\":[{\"$ref\":\"#/$defs/a11\"},{\"$ref\":\"#/$defs/a11\"}]},\"a11\":{\"allOf\":[{\"$ref\":\"#/$defs/a12\"},{\"$ref\":\"#/$defs/a12\"}]},\"a12\":{\"allOf\":[{\"$ref\":\"#/$defs/a13\"},{\"$ref\":\"#/$defs/a13\"}]},\"a13\":{\"allOf\":[{\"$ref\":\"#/$defs/a14\"},{\"$ref\":\"#/$defs/a14\"}]},\"a14\":{\"allOf\":[{\"$ref\":\"#/$defs/a15\"},{\"$ref\":\"#/$defs/a15\"}]},\"a15\":{\"allOf\":[{\"$ref\":\"#/$defs/a16\"},{\"$ref\":\"#/$defs/a16\"}]},\"a16\":{\"allOf\":[{\"$ref\":\"#/$defs/a17\"},{\"$ref\":\"#/$defs/a17\"}]},\"a17\":{\"allOf\":[{\"$ref\":\"#/$defs/a18\"},{\"$ref\":\"#/$defs/a18\"}]},\"a18\":{\"allOf\":[{\"$ref\":\"#/$defs/a19\"},{\"$ref\":\"#/$defs/a19\"}]},\"a19\":{\"allOf\":[{\"$ref\":\"#/$defs/a20\"},{\"$ref\":\"#/$defs/a20\"}]},\"a20\":{}}}")
  (func (export "opcell:plugin/operations@0.1.0#describe") (result i32)
    (i32.const 1024))
  (func (export "opcell:plugin/operations@0.1.0#invoke")
      (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (unreachable)))
