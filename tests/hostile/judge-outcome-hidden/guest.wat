(module
  ;; @judge-prelude
  ;; Instead of OK, an escape sequence and a character that turns a line around.
  (data (i32.const 1156) "\a0\04\00\00\06\00\00\00")
  (data (i32.const 1184) "\1b[2\e2\80\ae")
  (func (export "opcell:plugin/judges@0.1.0#judge")
      (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (unreachable)))
