/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The guard in front of the Linux stack of an interface that an active node listens on with an
 * AF_PACKET socket. The socket has seen every frame before it comes here (tcx ingress); the guard
 * takes the capsules away from the stack, which would otherwise forward them a second time or answer
 * them with ICMP. Everything else goes on unchanged. Its rule is that of the socket's filter
 * (src/sys/packet.rs): untagged, not for another host, no fragment, IP protocol 107 or UDP to port
 * 3322.
 *
 * It reads frames through a helper, as the filter does, since any part of a frame behind its
 * Ethernet header may lie in pages of their own. It has no map, so that it can be loaded as it is.
 */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;

/* The part of struct __sk_buff (linux/bpf.h) up to what is needed here. */
struct sk_buff {
    u32 len, pkt_type, mark, queue_mapping, protocol, vlan_present;
};

enum { NEXT = -1, DROP = 2 };
enum { ANEP = 107, UDP = 17, PORT = 3322, OTHER_HOST = 3, ETHERNET = 14, HEAD = 24 };

/* BPF_FUNC_skb_load_bytes: copies octets of a frame, wherever they lie; not 0 if it is too short. */
static long (*const load)(const struct sk_buff *skb, u32 offset, void *to, u32 length) = (void *)26;

#define be16(x) __builtin_bswap16(x)

/* Whether the UDP header at this offset has our destination port. */
static inline __attribute__((always_inline)) int is_anep(const struct sk_buff *skb, u32 udp)
{
    u16 port;

    return load(skb, udp + 2, &port, sizeof port) == 0 && port == be16(PORT);
}

__attribute__((section("tc"), used)) int guard(struct sk_buff *skb)
{
    u16 head[HEAD / 2];
    const u8 *ip = (const u8 *)head + ETHERNET;

    if (skb->vlan_present || skb->pkt_type == OTHER_HOST || load(skb, 0, head, HEAD))
        return NEXT;
    if (head[6] == be16(0x0800)) {
        if (head[10] & be16(0x3fff))
            return NEXT;
        if (ip[9] == ANEP)
            return DROP;
        return ip[9] == UDP && is_anep(skb, ETHERNET + (ip[0] & 15) * 4) ? DROP : NEXT;
    }
    if (head[6] == be16(0x86dd)) {
        if (ip[6] == ANEP)
            return DROP;
        return ip[6] == UDP && is_anep(skb, ETHERNET + 40) ? DROP : NEXT;
    }
    return NEXT;
}
