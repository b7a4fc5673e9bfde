;; Names of hosts, from a table that operators fill: 256 names of 32 bytes. It is lost when the extension is unloaded.
;;
;;     anode extension load r1 apps/extensions/names.wat
;;     anode node call r1 names.add www 10.0.0.80
;;     anode node call r1 names.lookup www
(module
  (memory (export "memory") 1)
  (global (export "an_buffer") i32 (i32.const 0))
  ;; The table, behind the buffer: 64 bytes each, the length of the name, at 8 the name, at 40 the host.
  (global $table i32 (i32.const 4096))
  (global $end i32 (i32.const 20480))

  ;; The length of the name in the buffer; more than 32, or none, is refused.
  (func $length (result i32) (i32.load (i32.const 0)))
  (func $wrong (result i32)
    (i32.or (i64.gt_u (i64.load (i32.const 0)) (i64.const 32)) (i64.eqz (i64.load (i32.const 0)))))

  (func $same (param $at i32) (result i32)
    (local $byte i32)
    (if (i32.ne (i32.load (local.get $at)) (call $length)) (then (return (i32.const 0))))
    (loop $next
      (if (i32.eq (local.get $byte) (call $length)) (then (return (i32.const 1))))
      (if (i32.ne
            (i32.load8_u (i32.add (i32.const 8) (local.get $byte)))
            (i32.load8_u offset=8 (i32.add (local.get $at) (local.get $byte))))
        (then (return (i32.const 0))))
      (local.set $byte (i32.add (local.get $byte) (i32.const 1)))
      (br $next))
    (i32.const 0))

  ;; The place of the name, or else a free one, or else the end.
  (func $find (result i32)
    (local $at i32) (local $free i32)
    (local.set $at (global.get $table))
    (local.set $free (global.get $end))
    (loop $next
      (if (call $same (local.get $at)) (then (return (local.get $at))))
      (if (i32.and (i32.eqz (i32.load (local.get $at))) (i32.eq (local.get $free) (global.get $end)))
        (then (local.set $free (local.get $at))))
      (local.set $at (i32.add (local.get $at) (i32.const 64)))
      (br_if $next (i32.lt_u (local.get $at) (global.get $end))))
    (local.get $free))

  (func (export "add") (param $length i32) (result i32)
    (local $at i32) (local $host i32)
    (if (call $wrong) (then (return (i32.const -4))))
    (local.set $at (call $find))
    (if (i32.eq (local.get $at) (global.get $end)) (then (return (i32.const -2))))
    (i32.store (local.get $at) (call $length))
    (memory.copy (i32.add (local.get $at) (i32.const 8)) (i32.const 8) (call $length))
    ;; The host is behind the name, which ends at a multiple of eight.
    (local.set $host (i32.sub (local.get $length) (i32.const 16)))
    (memory.copy (i32.add (local.get $at) (i32.const 40)) (local.get $host) (i32.const 16))
    (i32.const 0))

  (func (export "lookup") (param i32) (result i32)
    (local $at i32)
    (if (call $wrong) (then (return (i32.const -1))))
    (local.set $at (call $find))
    (if (i32.eq (local.get $at) (global.get $end)) (then (return (i32.const -1))))
    (if (i32.eqz (i32.load (local.get $at))) (then (return (i32.const -1))))
    (memory.copy (i32.const 0) (i32.add (local.get $at) (i32.const 40)) (i32.const 16))
    (i32.const 16))

  (func (export "remove") (param i32) (result i32)
    (local $at i32)
    (if (call $wrong) (then (return (i32.const -1))))
    (local.set $at (call $find))
    (if (i32.eq (local.get $at) (global.get $end)) (then (return (i32.const -1))))
    (if (i32.eqz (i32.load (local.get $at))) (then (return (i32.const -1))))
    (i32.store (local.get $at) (i32.const 0))
    (i32.const 0))

  (@custom "anode.extension"
    "name = 'names'\n"
    "about = 'names of hosts, from a table that operators fill'\n"
    "[[call]]\n"
    "name = 'add'\n"
    "type = '(string, host) -> unit'\n"
    "about = 'a name of a host: 32 bytes at most, 256 names'\n"
    "[[call]]\n"
    "name = 'lookup'\n"
    "type = 'string -> host'\n"
    "about = 'the host of a name'\n"
    "[[call]]\n"
    "name = 'remove'\n"
    "type = 'string -> unit'\n"
    "about = 'forgets a name'\n"))
