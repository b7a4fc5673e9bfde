;; rand : void -> int, the example of the PLAN service guide: a number from 0 to 0x3ffffffe.
;;
;;     anode plan load-service rand 'void -> int' apps/services/rand.wat
(module
  (import "anode" "an_random" (func $random (result i64)))
  (memory (export "memory") 1)
  (global (export "plan_buffer") i32 (i32.const 0))
  (func (export "service") (param i32) (result i32)
    (i64.store (i32.const 0) (i64.rem_u (call $random) (i64.const 0x3fffffff)))
    (i32.const 8)))
