;; Drops before a queue is full: early/Early(20, 60) lets a packet wait where fewer than 20 do, refuses it where 60 or more do, and between
;; the more often the more wait. So a sender that slows down when a packet is lost does so before many are.
;;
;; It is as random early detection (Floyd and Jacobson 1993), but by the length of the queue as it is now, not on the average.
(module
  (import "anode" "an_random" (func $random (result i64)))
  (memory (export "memory") 1)
  (global (export "an_buffer") i32 (i32.const 0))
  (global $least (mut i64) (i64.const 0))
  (global $most (mut i64) (i64.const 0))
  ;; Where $number goes on reading.
  (global $at (mut i32) (i32.const 8))

  ;; The next number of the arguments, from 0 to 65,535, or -1 if there is none.
  (func $number (result i64)
    (local $end i32) (local $digit i32) (local $number i64)
    (local.set $end (i32.add (i32.const 8) (i32.load (i32.const 0))))
    (local.set $number (i64.const -1))
    (loop $next
      (if (i32.ge_u (global.get $at) (local.get $end)) (then (return (local.get $number))))
      (local.set $digit (i32.sub (i32.load8_u (global.get $at)) (i32.const 48)))
      (global.set $at (i32.add (global.get $at) (i32.const 1)))
      (if (i32.le_u (local.get $digit) (i32.const 9))
        (then
          (if (i64.lt_s (local.get $number) (i64.const 0)) (then (local.set $number (i64.const 0))))
          (local.set $number
            (i64.add (i64.mul (local.get $number) (i64.const 10)) (i64.extend_i32_u (local.get $digit))))
          (if (i64.gt_u (local.get $number) (i64.const 65535)) (then (return (i64.const -1))))
          (br $next)))
      (br_if $next (i64.lt_s (local.get $number) (i64.const 0))))
    (local.get $number))

  (func (export "bounds") (param i32) (result i32)
    (if (i64.gt_u (i64.load (i32.const 0)) (i64.const 1024)) (then (return (i32.const -4))))
    (global.set $least (call $number))
    (global.set $most (call $number))
    (if (i64.lt_s (global.get $least) (i64.const 0)) (then (return (i32.const -2))))
    (if (i64.le_s (global.get $most) (global.get $least)) (then (return (i32.const -2))))
    (i32.const 0))

  ;; In: packets that wait (8), for how many there is room (8), this one's bytes (8), nanoseconds for which none waited (8).
  ;; Out: 1, it may wait, or 0 (8).
  (func (export "Early") (param i32) (result i32)
    (local $waiting i64) (local $lets_in i64)
    (local.set $waiting (i64.load (i32.const 0)))
    (local.set $lets_in (i64.const 1))
    (if (i64.ge_u (local.get $waiting) (global.get $most)) (then (local.set $lets_in (i64.const 0))))
    (if (i32.and
          (i64.ge_u (local.get $waiting) (global.get $least))
          (i64.lt_u
            (i64.rem_u (call $random) (i64.sub (global.get $most) (global.get $least)))
            (i64.sub (local.get $waiting) (global.get $least))))
      (then (local.set $lets_in (i64.const 0))))
    (i64.store (i32.const 0) (local.get $lets_in))
    (i32.const 8))

  (@custom "anode.extension"
    "name = 'early'\n"
    "about = 'drops by chance before a queue is full'\n"
    "[[admission]]\n"
    "name = 'Early'\n"
    "setup = 'bounds'\n"
    "about = 'Drops the more packets the more wait. early/Early(LEAST, MOST)'\n"))
