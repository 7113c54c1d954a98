(module
  ;; @judge-prelude
  (func (export "opcell:plugin/judges@0.1.0#judge")
      (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (drop (memory.grow (i32.const 16)))
    (memory.fill (i32.const 131072) (i32.const 0x1b) (i32.const 1048576))
    ;; ok(verdict { outcome: text(1 MiB of escapes), rationale: none })
    (memory.fill (i32.const 6144) (i32.const 0) (i32.const 64))
    (i32.store (i32.const 6152) (i32.const 131072))
    (i32.store (i32.const 6156) (i32.const 1048576))
    (i32.const 6144)))
