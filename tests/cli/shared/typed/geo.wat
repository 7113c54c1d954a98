(component
  (core module $m
    (func (export "twice") (param i32) (result i32) (i32.add (local.get 0) (local.get 0)))
    (func (export "take") (param i32)))
  (core instance $i (instantiate $m))
  (type $rep (resource (rep i32)))
  (export $thing "thing" (type $rep))
  (func $take (param "thing" (own $thing)) (canon lift (core func $i "take")))
  (export "take" (func $take))
  (func $twice (param "n" u32) (result u32) (canon lift (core func $i "twice")))
  (instance $shapes (export "twice" (func $twice)))
  (export "acme:geo/shapes@1.0.0" (instance $shapes)))
