;; world operation-plugin
(module
  (import "opcell:plugin/tools@0.1.0" "call" (func $call (param i32 i32 i32 i32 i32)))
  (@custom "opcell:manifest" "{\"schema\":1,\"name\":\"test\",\"version\":\"1.0.0\",\"capabilities\":{\"tools\":[{\"name\":\"next\",\"reason\":\"asks for the rest\"}]}}")
  ;; @memory
  ;; @entry
  ;; @describe
  (data (i32.const 1100) "next")
  (data (i32.const 1110) "denied")
  ;; Calls the tool `next` with its own arguments, and ends as that call does.
  (func (export "opcell:plugin/operations@0.1.0#invoke")
    (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (call $call (i32.const 1100) (i32.const 4) (local.get 2) (local.get 3) (i32.const 512))
    (if (i32.eqz (i32.load8_u (i32.const 512)))
      (then (return (call $ok (i32.load (i32.const 516)) (i32.load (i32.const 520))))))
    (i32.store8 (i32.const 3072) (i32.const 1))
    (i32.store8 (i32.const 3092) (i32.const 0))
    ;; The rule of a denial, the message of a failure.
    (i32.store (i32.const 3084) (i32.load (i32.const 528)))
    (i32.store (i32.const 3088) (i32.load (i32.const 532)))
    (if (i32.load8_u (i32.const 516))
      (then
        (i32.store (i32.const 3076) (i32.load (i32.const 520)))
        (i32.store (i32.const 3080) (i32.load (i32.const 524))))
      (else
        (i32.store (i32.const 3076) (i32.const 1110))
        (i32.store (i32.const 3080) (i32.const 6))))
    (i32.const 3072))
)
