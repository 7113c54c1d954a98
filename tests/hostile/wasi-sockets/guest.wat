(module
  (import "wasi:sockets/instance-network@0.2.0" "instance-network" (func $network (result i32)))
  (import "wasi:sockets/tcp-create-socket@0.2.0" "create-tcp-socket" (func $socket (param i32 i32)))
  (import "wasi:sockets/tcp@0.2.0" "[method]tcp-socket.start-connect"
    (func $connect (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "wasi:sockets/ip-name-lookup@0.2.0" "resolve-addresses" (func $resolve (param i32 i32 i32 i32)))
  ;; @prelude
  (data (i32.const 4096) "localhost")
  (func (export "opcell:plugin/operations@0.1.0#invoke")
      (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (local $net i32)
    (local.set $net (call $network))
    (call $socket (i32.const 0) (i32.const 5120))
    ;; No socket, or one that connects to nothing: access-denied, and no other error.
    (if (i32.load8_u (i32.const 5120))
      (then (if (i32.ne (i32.load8_u (i32.const 5124)) (i32.const 1)) (then (unreachable))))
      (else
        (call $connect (i32.load (i32.const 5124)) (local.get $net) (i32.const 0) (i32.const 80) (i32.const 127)
          (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
          (i32.const 0) (i32.const 0) (i32.const 5184))
        (if (i32.eqz (i32.load8_u (i32.const 5184))) (then (unreachable)))
        (if (i32.ne (i32.load8_u (i32.const 5185)) (i32.const 1)) (then (unreachable)))))
    (call $resolve (local.get $net) (i32.const 4096) (i32.const 9) (i32.const 5248))
    (if (i32.eqz (i32.load8_u (i32.const 5248))) (then (unreachable)))
    (i32.const 2048)))
