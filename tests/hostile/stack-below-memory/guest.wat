(module
  ;; @prelude
  (global $stack (mut i32) (i32.const 65536))
  ;; A frame of 64 bytes at each depth, as compilers keep them in memory, with the last one below address 0.
  (func (export "opcell:plugin/operations@0.1.0#invoke")
      (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (loop $deeper
      (global.set $stack (i32.sub (global.get $stack) (i32.const 64)))
      (i32.store (global.get $stack) (i32.load (global.get $stack)))
      (br $deeper))
    (unreachable)))
