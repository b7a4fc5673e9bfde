;; refused: memory.grow
(module
  (memory (export "memory") 1 1)
  (global (export "an_arena") i32 (i32.const 0))
  (func (export "capsule") (param i32 i32) (result i32)
    (memory.grow (i32.const 1000))))
