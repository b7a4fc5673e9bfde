;; VXLAN (RFC 7348) for rules of channels and for graphs, and where tunnels end: the end of west is the host whose name is vtep.west.
;;
;;     anode extension load r1 apps/extensions/names.wat apps/extensions/tunnels.wat
;;     anode node call r1 names.add vtep.west 10.0.0.9
;;     anode node call r1 tunnels.end west
(module
  (import "names" "lookup" (func $lookup (param i32) (result i32)))
  (memory (export "memory") 1)
  (global (export "an_buffer") i32 (i32.const 0))
  (data (i32.const 4096) "vtep.")
  (func (export "end") (param i32) (result i32)
    (local $length i32)
    (if (i64.gt_u (i64.load (i32.const 0)) (i64.const 27)) (then (return (i32.const -1))))
    (local.set $length (i32.load (i32.const 0)))
    (memory.copy (i32.const 13) (i32.const 8) (local.get $length))
    (memory.copy (i32.const 8) (i32.const 4096) (i32.const 5))
    (local.set $length (i32.add (local.get $length) (i32.const 5)))
    (i64.store (i32.const 0) (i64.extend_i32_u (local.get $length)))
    ;; What the other call gives is a host as well.
    (call $lookup (i32.and (i32.add (local.get $length) (i32.const 15)) (i32.const -8))))

  ;; Engines find a packet behind its input and its length, at 16, and leave it there behind the output.
  (global $network (mut i32) (i32.const 0))
  ;; Digits are a network's number, to 16,777,215.
  (func (export "network") (param i32) (result i32)
    (local $at i32) (local $digit i32) (local $number i32)
    (if (i64.gt_u (i64.sub (i64.load (i32.const 0)) (i64.const 1)) (i64.const 7)) (then (return (i32.const -2))))
    (loop $next
      (local.set $digit (i32.sub (i32.load8_u offset=8 (local.get $at)) (i32.const 48)))
      (if (i32.gt_u (local.get $digit) (i32.const 9)) (then (return (i32.const -2))))
      (local.set $number (i32.add (i32.mul (local.get $number) (i32.const 10)) (local.get $digit)))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $at) (i32.load (i32.const 0)))))
    (if (i32.gt_u (local.get $number) (i32.const 0xffffff)) (then (return (i32.const -2))))
    (global.set $network (local.get $number))
    (i32.const 0))

  ;; A whole frame of Ethernet, IPv4 without options and not in pieces, UDP to port 4789 and VXLAN with a number: this one?
  (func $is_ours (result i32)
    (if (i64.lt_u (i64.load (i32.const 8)) (i64.const 50)) (then (return (i32.const 0))))
    (if (i32.ne (i32.load16_u (i32.const 28)) (i32.const 0x0008)) (then (return (i32.const 0))))
    (if (i32.ne (i32.load8_u (i32.const 30)) (i32.const 0x45)) (then (return (i32.const 0))))
    (if (i32.and (i32.load16_u (i32.const 36)) (i32.const 0xff3f)) (then (return (i32.const 0))))
    (if (i32.ne (i32.load8_u (i32.const 39)) (i32.const 17)) (then (return (i32.const 0))))
    (if (i32.ne (i32.load16_u (i32.const 52)) (i32.const 0xb512)) (then (return (i32.const 0))))
    (if (i32.eqz (i32.and (i32.load8_u (i32.const 58)) (i32.const 8))) (then (return (i32.const 0))))
    (i32.eq (global.get $network)
      (i32.or
        (i32.or (i32.shl (i32.load8_u (i32.const 62)) (i32.const 16)) (i32.shl (i32.load8_u (i32.const 63)) (i32.const 8)))
        (i32.load8_u (i32.const 64)))))

  (func (export "Network") (param $length i32) (result i32)
    (i64.store (i32.const 0) (i64.extend_i32_u (i32.eqz (call $is_ours))))
    (local.get $length))

  (func (export "Decap") (param $length i32) (result i32)
    (local $inner i32)
    (local.set $inner (i32.sub (i32.load (i32.const 8)) (i32.const 50)))
    (if (i32.lt_s (local.get $inner) (i32.const 14)) (then (return (i32.const -2))))
    (memory.copy (i32.const 16) (i32.const 66) (local.get $inner))
    (i64.store (i32.const 0) (i64.const 0))
    (i64.store (i32.const 8) (i64.extend_i32_u (local.get $inner)))
    (i32.add (i32.const 16) (i32.and (i32.add (local.get $inner) (i32.const 7)) (i32.const -8))))

  (@custom "anode.extension"
    "name = 'tunnels'\n"
    "about = 'VXLAN, and where tunnels end'\n"
    "needs = ['names.lookup : string -> host']\n"
    "protocols = '''\n"
    "(protocol vxlan\n"
    "  (follows udp 4789)\n"
    "  (hdr_len 8)\n"
    "  (require valid = 1)\n"
    "  (field valid offset 0 bit 4 bits 1)\n"
    "  (field vni offset 4 length 3 flow))\n"
    "'''\n"
    "[[call]]\n"
    "name = 'end'\n"
    "type = 'string -> host'\n"
    "about = 'where the tunnel of this name ends'\n"
    "service = true\n"
    "[[engine]]\n"
    "name = 'Network'\n"
    "ports = '1/1-2'\n"
    "setup = 'network'\n"
    "about = 'Passes VXLAN packets of this network; others leave by output 1. tunnels/Network(NUMBER)'\n"
    "[[engine]]\n"
    "name = 'Decap'\n"
    "ports = '1/1'\n"
    "about = 'Takes the outer headers of VXLAN packets off. tunnels/Decap'\n"))
