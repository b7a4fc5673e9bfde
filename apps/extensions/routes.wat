;; Static routing: to which neighbour packets for a network go, by which interface. Of several networks with an address the smallest counts.
;;
;;     anode extension load r1 apps/extensions/routes.wat
;;     anode node call r1 routes.add 10.2.0.0 16 10.0.0.2 0     # by the node's first port
;;     anode node call r1 routes.next 10.2.0.1                  # (10.0.0.2, <dev 0>)
;;
;; An operator's call sets the node's own route as well, by `ways`, which every node has: so capsules and channels go there, too. Where the
;; node takes none, there is none here.
;;
;; PLAN programs declare `svc next : host -> host * dev`, and name it where they would name defaultRoute. 128 routes of IPv4 or IPv6: so one
;; is found within the steps that a packet has for that.
(module
  (import "ways" "set" (func $set (param i32) (result i32)))
  (import "ways" "remove" (func $unset (param i32) (result i32)))
  (memory (export "memory") 1)
  (global (export "an_buffer") i32 (i32.const 0))
  ;; The table, behind the buffer: 64 bytes each. The network's bits (16), at 16 the mask (16), at 32 the next node (16), at 48 the
  ;; interface (4), at 52 how many bits the mask has and one more, or 0 where none is.
  (global $table i32 (i32.const 4096))
  (global $end i32 (i32.const 12288))
  ;; Behind that the mask that was made last.
  (global $mask i32 (i32.const 12288))

  ;; Half of a mask: so many of its 64 bits, as they are in memory.
  (func $half (param $at i32) (param $bits i64)
    (local $byte i32) (local $left i64)
    (loop $next
      (local.set $left (i64.sub (local.get $bits) (i64.extend_i32_u (i32.shl (local.get $byte) (i32.const 3)))))
      (if (i64.lt_s (local.get $left) (i64.const 0)) (then (local.set $left (i64.const 0))))
      (if (i64.gt_s (local.get $left) (i64.const 8)) (then (local.set $left (i64.const 8))))
      (i32.store8
        (i32.add (local.get $at) (local.get $byte))
        (i32.sub (i32.const 0x100) (i32.shl (i32.const 1) (i32.sub (i32.const 8) (i32.wrap_i64 (local.get $left))))))
      (local.set $byte (i32.add (local.get $byte) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $byte) (i32.const 8)))))

  ;; The network at 0 with so many bits (16): its mask, and its bits without those of hosts. IPv4 is mapped: its bits come behind 96 others.
  ;; Gives how many bits that are, or -1 if there are not so many.
  (func $read (result i64)
    (local $bits i64)
    (local.set $bits (i64.load (i32.const 16)))
    (if (i64.lt_s (local.get $bits) (i64.const 0)) (then (return (i64.const -1))))
    (if (i32.and
          (i64.eqz (i64.load (i32.const 0)))
          (i32.eq (i32.load (i32.const 8)) (i32.const 0xffff0000)))
      (then (local.set $bits (i64.add (local.get $bits) (i64.const 96)))))
    (if (i64.gt_s (local.get $bits) (i64.const 128)) (then (return (i64.const -1))))
    (call $half (global.get $mask) (local.get $bits))
    (call $half (i32.add (global.get $mask) (i32.const 8)) (i64.sub (local.get $bits) (i64.const 64)))
    (i64.store (i32.const 0) (i64.and (i64.load (i32.const 0)) (i64.load (global.get $mask))))
    (i64.store (i32.const 8) (i64.and (i64.load (i32.const 8)) (i64.load offset=8 (global.get $mask))))
    (local.get $bits))

  ;; The place of the network at 0 with so many bits, or else a free one, or else the end.
  (func $find (param $bits i64) (result i32)
    (local $at i32) (local $free i32) (local $has i32)
    (local.set $at (global.get $table))
    (local.set $free (global.get $end))
    (loop $next
      (local.set $has (i32.load offset=52 (local.get $at)))
      (if (i32.and
            (i32.eq (local.get $has) (i32.add (i32.wrap_i64 (local.get $bits)) (i32.const 1)))
            (i32.and
              (i64.eq (i64.load (local.get $at)) (i64.load (i32.const 0)))
              (i64.eq (i64.load offset=8 (local.get $at)) (i64.load (i32.const 8)))))
        (then (return (local.get $at))))
      (if (i32.and (i32.eqz (local.get $has)) (i32.eq (local.get $free) (global.get $end)))
        (then (local.set $free (local.get $at))))
      (local.set $at (i32.add (local.get $at) (i32.const 64)))
      (br_if $next (i32.lt_u (local.get $at) (global.get $end))))
    (local.get $free))

  ;; In: network (16), bits (8), next node (16), interface (8).
  (func (export "add") (param i32) (result i32)
    (local $bits i64) (local $at i32) (local $said i32)
    (local.set $bits (call $read))
    (if (i64.lt_s (local.get $bits) (i64.const 0)) (then (return (i32.const -2))))
    (local.set $at (call $find (local.get $bits)))
    (if (i32.eq (local.get $at) (global.get $end)) (then (return (i32.const -4))))
    (local.set $said (call $set (i32.const 48)))
    (if (i32.lt_s (local.get $said) (i32.const 0)) (then (return (local.get $said))))
    (memory.copy (local.get $at) (i32.const 0) (i32.const 16))
    (memory.copy (i32.add (local.get $at) (i32.const 16)) (global.get $mask) (i32.const 16))
    (memory.copy (i32.add (local.get $at) (i32.const 32)) (i32.const 24) (i32.const 16))
    (i32.store offset=48 (local.get $at) (i32.load (i32.const 40)))
    (i32.store offset=52 (local.get $at) (i32.add (i32.wrap_i64 (local.get $bits)) (i32.const 1)))
    (i32.const 0))

  ;; In: network (16), bits (8).
  (func (export "remove") (param i32) (result i32)
    (local $bits i64) (local $at i32)
    (local.set $bits (call $read))
    (if (i64.lt_s (local.get $bits) (i64.const 0)) (then (return (i32.const -2))))
    (local.set $at (call $find (local.get $bits)))
    (if (i32.eq (local.get $at) (global.get $end)) (then (return (i32.const -1))))
    (if (i32.eqz (i32.load offset=52 (local.get $at))) (then (return (i32.const -1))))
    ;; Whatever the node says: it may have lost the route.
    (drop (call $unset (i32.const 24)))
    (i32.store offset=52 (local.get $at) (i32.const 0))
    (i32.const 0))

  ;; In: host (16). Out: next node (16), interface (8).
  (func (export "next") (param i32) (result i32)
    (local $at i32) (local $best i32) (local $most i32)
    (local.set $at (global.get $table))
    (loop $next
      (if (i32.gt_u (i32.load offset=52 (local.get $at)) (local.get $most))
        (then
          (if (i32.and
                (i64.eq
                  (i64.and (i64.load (i32.const 0)) (i64.load offset=16 (local.get $at)))
                  (i64.load (local.get $at)))
                (i64.eq
                  (i64.and (i64.load (i32.const 8)) (i64.load offset=24 (local.get $at)))
                  (i64.load offset=8 (local.get $at))))
            (then
              (local.set $best (local.get $at))
              (local.set $most (i32.load offset=52 (local.get $at)))))))
      (local.set $at (i32.add (local.get $at) (i32.const 64)))
      (br_if $next (i32.lt_u (local.get $at) (global.get $end))))
    (if (i32.eqz (local.get $most)) (then (return (i32.const -1))))
    (memory.copy (i32.const 0) (i32.add (local.get $best) (i32.const 32)) (i32.const 16))
    (i64.store (i32.const 16) (i64.extend_i32_u (i32.load offset=48 (local.get $best))))
    (i32.const 24))

  (@custom "anode.extension"
    "name = 'routes'\n"
    "about = 'static routing, by a table that operators fill'\n"
    "needs = ['ways.set : (host, int, host, dev) -> unit', 'ways.remove : (host, int) -> unit']\n"
    "[[call]]\n"
    "name = 'add'\n"
    "type = '(host, int, host, dev) -> unit'\n"
    "about = 'a network, its bits, the next node, and the interface by which it is'\n"
    "everywhere = true\n"
    "[[call]]\n"
    "name = 'remove'\n"
    "type = '(host, int) -> unit'\n"
    "about = 'forgets a network'\n"
    "everywhere = true\n"
    "[[call]]\n"
    "name = 'next'\n"
    "type = 'host -> host * dev'\n"
    "about = 'where a packet for this host goes: a routing function of PLAN'\n"
    "service = true\n"))
