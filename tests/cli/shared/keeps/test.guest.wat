;; world operation-plugin
(module
  (import "opcell:plugin/store@0.2.0" "get" (func $get (param i32 i32 i32 i32 i32)))
  (@custom "opcell:manifest" "{\"schema\":1,\"name\":\"test\",\"version\":\"1.0.0\",\"capabilities\":{\"stores\":[{\"name\":\"kept\",\"reason\":\"remembers what it was told\"}]}}")
  ;; @memory
  ;; @entry
  ;; @describe
  (data (i32.const 1100) "kept")
  (data (i32.const 1110) "denied")
  (data (i32.const 1120) "null")
  ;; Fails with what it is denied, as the SDKs do.
  (func (export "opcell:plugin/operations@0.1.0#invoke")
    (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (call $get (i32.const 1100) (i32.const 4) (i32.const 1100) (i32.const 4) (i32.const 512))
    (if (i32.load8_u (i32.const 512))
      (then
        (i32.store8 (i32.const 3072) (i32.const 1))
        (i32.store (i32.const 3076) (i32.const 1110))
        (i32.store (i32.const 3080) (i32.const 6))
        (i32.store (i32.const 3084) (i32.const 1110))
        (i32.store (i32.const 3088) (i32.const 6))
        (i32.store8 (i32.const 3092) (i32.const 0))
        (return (i32.const 3072))))
    (call $ok (i32.const 1120) (i32.const 4)))
)
