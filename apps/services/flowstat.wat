;; flowStat : (int, int) -> int * int * int: counts a packet of so many bytes for a flow; gives packets and bytes of that
;; flow so far, and milliseconds since its first packet. With no bytes nothing is counted. It keeps 256 flows, and a
;; new one takes the place of another; a flow that has no place raises NotFound when it is only asked for.
;;
;;     anode plan load-service flowStat '(int, int) -> int * int * int' apps/services/flowstat.wat
(module
  (import "anode" "an_now" (func $now (result i64)))
  (memory (export "memory") 1)
  (global (export "plan_buffer") i32 (i32.const 0))
  ;; The table: 32 bytes each of flow + 1, packets, bytes, first packet in nanoseconds; behind the buffer.
  (func $place (param $flow i64) (result i32)
    (i32.add
      (i32.const 4096)
      (i32.mul (i32.const 32) (i32.and (i32.wrap_i64 (local.get $flow)) (i32.const 255)))))
  (func (export "service") (param i32) (result i32)
    (local $flow i64) (local $bytes i64) (local $at i32)
    (local.set $flow (i64.load (i32.const 0)))
    (local.set $bytes (i64.load (i32.const 8)))
    (local.set $at (call $place (local.get $flow)))
    (if (i64.ne (i64.load (local.get $at)) (i64.add (local.get $flow) (i64.const 1)))
      (then
        (if (i64.eqz (local.get $bytes)) (then (return (i32.const -1))))
        (i64.store (local.get $at) (i64.add (local.get $flow) (i64.const 1)))
        (i64.store offset=8 (local.get $at) (i64.const 0))
        (i64.store offset=16 (local.get $at) (i64.const 0))
        (i64.store offset=24 (local.get $at) (call $now))))
    (if (i64.ne (local.get $bytes) (i64.const 0))
      (then
        (i64.store offset=8 (local.get $at) (i64.add (i64.load offset=8 (local.get $at)) (i64.const 1)))
        (i64.store offset=16 (local.get $at) (i64.add (i64.load offset=16 (local.get $at)) (local.get $bytes)))))
    (i64.store (i32.const 0) (i64.load offset=8 (local.get $at)))
    (i64.store (i32.const 8) (i64.load offset=16 (local.get $at)))
    (i64.store (i32.const 16)
      (i64.div_u (i64.sub (call $now) (i64.load offset=24 (local.get $at))) (i64.const 1000000)))
    (i32.const 24)))
