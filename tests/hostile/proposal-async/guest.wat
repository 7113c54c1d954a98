(component
  (core module $m (func (export "run") (result i32) (unreachable)) (func (export "callback") (param i32 i32 i32) (result i32) (unreachable)))
  (core instance $i (instantiate $m))
  (func $run async (canon lift (core func $i "run") async (callback (core func $i "callback"))))
  (instance $operations (export "describe" (func $run)))
  (export "opcell:plugin/operations@0.1.0" (instance $operations)))
