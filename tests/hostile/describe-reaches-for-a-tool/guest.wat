(module
  (import "opcell:plugin/tools@0.1.0" "call" (func $call (param i32 i32 i32 i32 i32)))
  ;; @prelude-without-describe
  (data (i32.const 1024) "\08\04\00\00\01\00\00\00")
  (data (i32.const 1032) "\40\04\00\00\0b\00\00\00\50\04\00\00\14\00\00\00")
  (data (i32.const 1048) "\70\04\00\00\02\00\00\00\70\04\00\00\02\00\00\00\00\00\00\00")
  (data (i32.const 1088) "hostile/run")
  (data (i32.const 1104) "Does what it can not")
  (data (i32.const 1136) "{}")
  (data (i32.const 4096) "selftest.secret{}")
  ;; The grant is for calls: describing must be refused, or this traps.
  (func (export "opcell:plugin/operations@0.1.0#describe") (result i32)
    (call $call (i32.const 4096) (i32.const 15) (i32.const 4111) (i32.const 2) (i32.const 5120))
    (if (i32.eqz (i32.load8_u (i32.const 5120))) (then (unreachable)))
    (i32.const 1024))
  (func (export "opcell:plugin/operations@0.1.0#invoke")
      (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (unreachable)))
