(module (memory (export "memory") 1) (func (export "run") (loop $again (br $again))))
