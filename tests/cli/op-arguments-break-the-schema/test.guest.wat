;; world operation-plugin
(module
  ;; @memory
  (data (i32.const 16) "test/run")
  (data (i32.const 4096) "{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\"}},\"required\":[\"n\"]}")
  (data (i32.const 8192) "true")
  ;; Describes the pure operation `test/run`.
  (func $entry (param $at i32)
    (i32.store (local.get $at) (i32.const 16)) (i32.store offset=4 (local.get $at) (i32.const 8))
    (i32.store offset=8 (local.get $at) (i32.const 16)) (i32.store offset=12 (local.get $at) (i32.const 8))
    (i32.store offset=16 (local.get $at) (i32.const 4096)) (i32.store offset=20 (local.get $at) (i32.const 72))
    (i32.store offset=24 (local.get $at) (i32.const 8192)) (i32.store offset=28 (local.get $at) (i32.const 4)))
  ;; @describe
  ;; @invoke
)
