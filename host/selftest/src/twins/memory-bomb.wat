;; Grows its memory a page at a time and touches each page, until growing fails; then it is done.
(module (memory (export "memory") 1)
  (func (export "run") (local $page i32)
    (loop $again
      (local.set $page (memory.grow (i32.const 1)))
      (if (i32.ne (local.get $page) (i32.const -1))
        (then
          (memory.fill (i32.mul (local.get $page) (i32.const 65536)) (i32.const 165) (i32.const 65536))
          (br $again))))))
