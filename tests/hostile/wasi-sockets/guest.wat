(component
  (import "wasi:sockets/instance-network@0.2.0" (instance
    (export "network" (type (sub resource)))
    (export "instance-network" (func)))))
