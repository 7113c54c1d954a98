;; world operation-plugin
(module
  (import "opcell:plugin/store@0.2.0" "get" (func $get (param i32 i32 i32 i32 i32)))
  (import "opcell:plugin/store@0.2.0" "set" (func $set (param i32 i32 i32 i32 i32 i32 i32)))
  (@custom "opcell:manifest" "{\"schema\":1,\"name\":\"test\",\"version\":\"1.2.0\",\"description\":\"Remembers\",\"license\":\"MIT\",\"capabilities\":{\"stores\":[{\"name\":\"kept\",\"reason\":\"remembers what it was told\"}]}}")
  ;; @memory
  ;; @entry
  ;; @describe
  (data (i32.const 1100) "kept")
  (data (i32.const 1110) "\"denied\"")
  (data (i32.const 1120) "null")
  ;; Returns what it was told before, and keeps its arguments for the next time.
  (func (export "opcell:plugin/operations@0.1.0#invoke")
    (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (call $get (i32.const 1100) (i32.const 4) (i32.const 1100) (i32.const 4) (i32.const 512))
    (if (i32.load8_u (i32.const 512)) (then (return (call $ok (i32.const 1110) (i32.const 8)))))
    (call $set (i32.const 1100) (i32.const 4) (i32.const 1100) (i32.const 4) (local.get 2) (local.get 3) (i32.const 600))
    (if (i32.load8_u (i32.const 600)) (then (unreachable)))
    (if (i32.load8_u (i32.const 520))
      (then (return (call $ok (i32.load (i32.const 528)) (i32.load (i32.const 532))))))
    (call $ok (i32.const 1120) (i32.const 4)))
)
