;; Grows its table by a million elements at a time until growing fails; then it is done.
(module (memory (export "memory") 1) (table $t 1 funcref) (func $f) (elem declare func $f)
  (func (export "run")
    (loop $again
      (br_if $again (i32.ne (table.grow $t (ref.func $f) (i32.const 1000000)) (i32.const -1))))))
