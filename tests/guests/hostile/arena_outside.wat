;; refused: an_arena at 65500
(module
  (memory (export "memory") 1 1)
  (global (export "an_arena") i32 (i32.const 65500))
  (func (export "capsule") (param i32 i32) (result i32) (i32.const 1)))
