(component
  (import "nope:nowhere/thing@1.0.0" (instance (export "f" (func)))))
