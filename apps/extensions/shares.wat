;; An order of queues by shares of bytes: shares/Shares(3, 1) gives the first input three parts, the second one.
;;
;; Start-time fair queueing (Goyal, Vin and Cheng 1997): a packet of an input moves its time on by its bytes over the input's weight, and
;; the input whose time is the least is next. One that had nothing begins again where the others are, so it saves nothing up.
(module
  (memory (export "memory") 1)
  (global (export "an_buffer") i32 (i32.const 0))
  ;; Behind the buffer, for each of 64 inputs: its weight, and at 8 its time.
  (global $table i32 (i32.const 4096))

  (func $place (param $input i64) (result i32)
    (i32.add (global.get $table) (i32.shl (i32.wrap_i64 (local.get $input)) (i32.const 4))))

  ;; Weights are numbers from 1 to 10,000, and anything else between them.
  (func (export "weights") (param i32) (result i32)
    (local $at i32) (local $end i32) (local $digit i32) (local $number i64) (local $input i64) (local $begun i32)
    (if (i64.gt_u (i64.load (i32.const 0)) (i64.const 1024)) (then (return (i32.const -4))))
    (local.set $at (i32.const 8))
    (local.set $end (i32.add (i32.const 8) (i32.load (i32.const 0))))
    (loop $next
      (local.set $digit (i32.const 10))
      (if (i32.lt_u (local.get $at) (local.get $end))
        (then (local.set $digit (i32.sub (i32.load8_u (local.get $at)) (i32.const 48)))))
      (if (i32.le_u (local.get $digit) (i32.const 9))
        (then
          (local.set $begun (i32.const 1))
          (local.set $number
            (i64.add (i64.mul (local.get $number) (i64.const 10)) (i64.extend_i32_u (local.get $digit))))
          (if (i64.gt_u (local.get $number) (i64.const 10000)) (then (return (i32.const -2)))))
        (else
          (if (local.get $begun)
            (then
              (if (i64.ge_u (local.get $input) (i64.const 64)) (then (return (i32.const -2))))
              (if (i64.eqz (local.get $number)) (then (return (i32.const -2))))
              (i64.store (call $place (local.get $input)) (local.get $number))
              (local.set $input (i64.add (local.get $input) (i64.const 1)))
              (local.set $number (i64.const 0))
              (local.set $begun (i32.const 0))))))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br_if $next (i32.le_u (local.get $at) (local.get $end))))
    (if (i64.eqz (local.get $input)) (then (return (i32.const -2))))
    (i32.const 0))

  (func $time (param $input i64) (result i64) (i64.load offset=8 (call $place (local.get $input))))

  ;; Whether there is nothing at an input, as far as it is known.
  (func $is_empty (param $input i64) (result i32)
    (i32.wrap_i64 (i64.and (i64.const 1) (i64.shr_u (i64.load (i32.const 8)) (local.get $input)))))

  ;; In: inputs (8), those that had nothing (8), the input of the packet before (8), its bytes (8). Out: the next input (8).
  (func (export "Shares") (param i32) (result i32)
    (local $input i64) (local $best i64) (local $weight i64) (local $place i32)
    (local.set $place (call $place (i64.load (i32.const 16))))
    (local.set $weight (i64.load (local.get $place)))
    (if (i64.eqz (local.get $weight)) (then (local.set $weight (i64.const 1))))
    (i64.store offset=8 (local.get $place)
      (i64.add (i64.load offset=8 (local.get $place))
        (i64.div_u (i64.shl (i64.load (i32.const 24)) (i64.const 16)) (local.get $weight))))
    (local.set $best (i64.const -1))
    (loop $next
      (if (i32.eqz (call $is_empty (local.get $input)))
        (then
          (if (i64.eq (local.get $best) (i64.const -1))
            (then (local.set $best (local.get $input)))
            (else
              (if (i64.lt_u (call $time (local.get $input)) (call $time (local.get $best)))
                (then (local.set $best (local.get $input))))))))
      (local.set $input (i64.add (local.get $input) (i64.const 1)))
      (br_if $next (i64.lt_u (local.get $input) (i64.load (i32.const 0)))))
    (if (i64.eq (local.get $best) (i64.const -1)) (then (return (i32.const -1))))
    (local.set $input (i64.const 0))
    (loop $next
      (if (i32.and
            (call $is_empty (local.get $input))
            (i64.lt_u (call $time (local.get $input)) (call $time (local.get $best))))
        (then (i64.store offset=8 (call $place (local.get $input)) (call $time (local.get $best)))))
      (local.set $input (i64.add (local.get $input) (i64.const 1)))
      (br_if $next (i64.lt_u (local.get $input) (i64.load (i32.const 0)))))
    (i64.store (i32.const 0) (local.get $best))
    (i32.const 8))

  (@custom "anode.extension"
    "name = 'shares'\n"
    "about = 'an order of queues by shares of bytes'\n"
    "[[engine]]\n"
    "name = 'Shares'\n"
    "ports = '1-/1'\n"
    "order = true\n"
    "setup = 'weights'\n"
    "about = 'Pulls from its inputs by their weights, with bytes as cost. shares/Shares(WEIGHT, ...)'\n"))
