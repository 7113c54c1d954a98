(component
  (core module $m (memory 16))
  ;; @repeat 300
  (core instance (instantiate $m))
  ;; @end
  (instance $operations)
  (export "opcell:plugin/operations@0.1.0" (instance $operations)))
