(module (func (export "run")))
