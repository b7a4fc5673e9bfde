/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The guard in front of the Linux stack of an interface that an active node listens on with an
 * AF_PACKET socket. The socket has seen every frame before it comes here (tcx ingress); the guard
 * takes the capsules away from the stack, which would otherwise forward them a second time or answer
 * them with ICMP. Everything else goes on unchanged. Its rule is that of the socket's filter
 * (src/sys/packet.rs): untagged, no fragment, IP protocol 107 or UDP to port 3322.
 *
 * It has no map and calls nothing, so that it can be loaded as it is.
 */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;

/* The part of struct __sk_buff (linux/bpf.h) up to what is needed here. */
struct sk_buff {
    u32 len, pkt_type, mark, queue_mapping, protocol, vlan_present, vlan_tci, vlan_proto, priority;
    u32 ingress_ifindex, ifindex, tc_index, cb[5], hash, tc_classid, data, data_end;
};

enum { NEXT = -1, DROP = 2 };
enum { ANEP = 107, UDP = 17, PORT = 3322 };

#define be16(x) __builtin_bswap16(x)

static inline __attribute__((always_inline)) int is_anep(const u8 *udp, const u8 *end)
{
    return udp + 8 <= end && *(const u16 *)(udp + 2) == be16(PORT);
}

__attribute__((section("tc"), used)) int guard(struct sk_buff *skb)
{
    const u8 *data = (const u8 *)(long)skb->data, *end = (const u8 *)(long)skb->data_end;
    const u8 *ip = data + 14;

    if (skb->vlan_present || ip + 20 > end)
        return NEXT;
    if (*(const u16 *)(data + 12) == be16(0x0800)) {
        u32 length = (u32)(ip[0] & 15) * 4;

        if (*(const u16 *)(ip + 6) & be16(0x3fff))
            return NEXT;
        if (ip[9] == ANEP)
            return DROP;
        return ip[9] == UDP && is_anep(ip + length, end) ? DROP : NEXT;
    }
    if (*(const u16 *)(data + 12) == be16(0x86dd)) {
        if (ip[6] == ANEP)
            return DROP;
        return ip[6] == UDP && is_anep(ip + 40, end) ? DROP : NEXT;
    }
    return NEXT;
}
