;; world operation-plugin
(module
  (@custom "opcell:manifest" "{\"schema\":1,\"name\":\"test\",\"version\":\"1.0.0\",\"capabilities\":{\"files\":[{\"name\":\"notes\",\"access\":\"read-write\",\"reason\":\"keeps notes\"}]}}")
  (import "opcell:plugin/files@0.1.0" "open-root" (func $open_root (param i32 i32 i32)))
  (import "opcell:plugin/files@0.1.0" "[method]directory.open" (func $open (param i32 i32 i32 i32)))
  (import "opcell:plugin/files@0.1.0" "[method]directory.create" (func $create (param i32 i32 i32 i32)))
  (import "opcell:plugin/files@0.1.0" "[method]file.read" (func $read (param i32 i64 i32 i32)))
  (import "opcell:plugin/files@0.1.0" "[method]file.write" (func $write (param i32 i32 i32 i32)))
  ;; @memory
  ;; @entry
  ;; @describe
  (data (i32.const 1100) "notesin.jsonout.json[0]")
  ;; Copies `in.json` to `out.json` and returns it.
  (func (export "opcell:plugin/operations@0.1.0#invoke")
    (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32) (local $root i32)
    (call $open_root (i32.const 1100) (i32.const 5) (i32.const 512))
    (local.set $root (i32.load (i32.const 516)))
    (call $open (local.get $root) (i32.const 1105) (i32.const 7) (i32.const 512))
    (call $read (i32.load (i32.const 516)) (i64.const 0) (i32.const 100) (i32.const 512))
    (call $create (local.get $root) (i32.const 1112) (i32.const 8) (i32.const 544))
    (call $write (i32.load (i32.const 548)) (i32.load (i32.const 516)) (i32.load (i32.const 520)) (i32.const 576))
    (call $ok (i32.load (i32.const 516)) (i32.load (i32.const 520))))
)
