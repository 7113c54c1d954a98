(component (import "acme:database/query@1.0.0" (instance)) (core module $m (func (export "f"))) (core instance $i (instantiate $m)) (func (export "run") (canon lift (core func $i "f"))))
