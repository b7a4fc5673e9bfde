;; VXLAN (RFC 7348) for rules of channels, and where tunnels end: the end of west is the host whose name is vtep.west.
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
    "service = true\n"))
