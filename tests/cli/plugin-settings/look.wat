;; Looks up what its operator set, as a component that was not written for `opcell:plugin` does.
(component
  (import "wasi:config/store@0.2.0-rc.1" (instance $config
    (type $error' (variant (case "upstream" string) (case "io" string)))
    (export "error" (type $error (eq $error')))
    (type $found (option string))
    (type $answer (result $found (error $error)))
    (export "get" (func (param "key" string) (result $answer)))))
  (core module $libc
    (memory (export "memory") 1)
    (global $next (mut i32) (i32.const 1024))
    (func (export "realloc") (param i32 i32 i32 i32) (result i32)
      (global.get $next)
      (global.set $next (i32.add (global.get $next) (i32.and (i32.add (local.get 3) (i32.const 7)) (i32.const -8))))))
  (core instance $libc (instantiate $libc))
  (core func $get (canon lower (func $config "get") (memory (core memory $libc "memory")) (realloc (core func $libc "realloc"))))
  (core module $main
    (import "libc" "memory" (memory 1))
    (import "config" "get" (func $get (param i32 i32 i32)))
    (func (export "setting") (param i32 i32) (result i32)
      (call $get (local.get 0) (local.get 1) (i32.const 16))
      (if (i32.load8_u (i32.const 16)) (then (unreachable)))
      ;; What was found follows the mark of success.
      (i32.const 20)))
  (core instance $main (instantiate $main
    (with "libc" (instance $libc))
    (with "config" (instance (export "get" (func $get))))))
  (func $setting (param "key" string) (result (option string))
    (canon lift (core func $main "setting") (memory (core memory $libc "memory")) (realloc (core func $libc "realloc"))))
  (instance $look (export "setting" (func $setting)))
  (export "acme:look/look@1.0.0" (instance $look)))
