;; refused: a start function
(module
  (memory (export "memory") 1 1)
  (global (export "an_arena") i32 (i32.const 0))
  (func $loop (loop $again (br $again)))
  (start $loop)
  (func (export "capsule") (param i32 i32) (result i32) (i32.const 1)))
