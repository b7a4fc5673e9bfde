/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The next hop of a packet: the kernel's own route and link address, remembered for a moment (one second at 250
 * ticks).
 */
#ifndef ANODE_NEXT_HOP_H
#define ANODE_NEXT_HOP_H

#include "wire.h"

/* Ticks of the kernel's clock for which a next hop is believed without a look at the routes, so that
 * changes are obeyed also when nobody raises the generation. */
enum { TICKS = 250 };

/* struct bpf_fib_lookup (linux/bpf.h). */
struct fib {
    u8 family, protocol;
    u16 source_port, destination_port, length;
    u32 interface, service;
    u32 source[4], destination[4];
    u32 table;
    u16 own_mac[3], mac[3];
};
_Static_assert(sizeof(struct fib) == 64, "the kernel's structure");

enum { INET = 2, INET6 = 10 };

/* BPF_FIB_LOOKUP_DIRECT, BPF_FIB_LOOKUP_TBID and RT_TABLE_MAIN: where there are no rules of policy routing but those that every host
 * has, the main tables say all, also to the user half. */
enum { IN_TABLE = 1 | 8, MAIN = 254 };

/* Whether an address is one of the node's own: the main tables do not say. */
INLINE int is_own(const u64 to[2])
{
    struct prefix prefix = {128, {(u32)to[0], (u32)(to[0] >> 32), (u32)to[1], (u32)(to[1] >> 32)}};
    const struct route *route = map_lookup(routes_map, &prefix);

    return route && route->here;
}

/* Whether another station than the port itself may have the link address: no group has it, nor nobody (Mac::is_anothers in
 * src/wire/ethernet.rs says the same). What the host's stack believes is no better than what was said to it. */
INLINE int is_anothers(const struct fib *fib)
{
    u16 differs = (fib->mac[0] ^ fib->own_mac[0]) | (fib->mac[1] ^ fib->own_mac[1]) | (fib->mac[2] ^ fib->own_mac[2]);

    return !(fib->mac[0] & be16(0x0100)) && (fib->mac[0] | fib->mac[1] | fib->mac[2]) && differs;
}

INLINE void take_macs(u16 macs[6], const struct fib *fib)
{
    macs[0] = fib->mac[0];
    macs[1] = fib->mac[1];
    macs[2] = fib->mac[2];
    macs[3] = fib->own_mac[0];
    macs[4] = fib->own_mac[1];
    macs[5] = fib->own_mac[2];
}

/* What rules look at beside addresses and interface, as it is when the packet leaves: src/kernel/routes.rs says the same. */
INLINE void fill_flow(const struct xdp *ctx, struct fib *fib, int v4)
{
    const u8 *data = packet(ctx);
    const struct ipv4 *ip = (const void *)(data + sizeof(struct ethernet));
    const struct ipv6 *ip6 = (const void *)ip;

    if (data + BEHIND_IPV6 > packet_end(ctx))
        return;
    fib->protocol = v4 ? ip->protocol : ip6->next;
    fib->service = v4 ? ip->service : ip6->word & be32(0x0ff00000);
    if (fib->protocol == UDP)
        fib->source_port = fib->destination_port = be16(PORT);
}

/* Asks the kernel. False if the way leads nowhere, to this host, or out of what the node knows; or to a link address that is nobody's. */
INLINE int ask(struct xdp *ctx, struct hop *hop, const u64 from[2], const u64 to[2])
{
    int v4 = is_v4(to), ruled = node()->ruled != 0;
    struct fib fib = {0};

    fib.family = v4 ? INET : INET6;
    fib.interface = ctx->ingress_ifindex;
    fib.source[0] = v4 ? (u32)(from[1] >> 32) : (u32)from[0];
    fib.destination[0] = v4 ? (u32)(to[1] >> 32) : (u32)to[0];
    if (!v4) {
        fib.source[1] = (u32)(from[0] >> 32);
        fib.source[2] = (u32)from[1];
        fib.source[3] = (u32)(from[1] >> 32);
        fib.destination[1] = (u32)(to[0] >> 32);
        fib.destination[2] = (u32)to[1];
        fib.destination[3] = (u32)(to[1] >> 32);
    }
    if (UNLIKELY(ruled))
        fill_flow(ctx, &fib, v4);
    else
        fib.table = MAIN;
    if (is_own(to) || fib_lookup(ctx, &fib, sizeof(fib), ruled ? 0 : IN_TABLE) || !is_anothers(&fib))
        return 0;
    u32 interface = fib.interface;
    struct port *port = map_lookup(ports_map, &interface);
    /* Where a redirect leads nowhere the user half sends. */
    if (!port || !port->present || !port->mtu)
        return 0;
    copy(hop->own, v4 ? port->v4 : port->v6);
    if (!(hop->own[0] | hop->own[1]))
        return 0;
    u32 mtu = fib.length < port->mtu ? fib.length : port->mtu;
    hop->interface = (u16)interface;
    hop->mtu = (u16)mtu;
    take_macs(hop->macs, &fib);
    return 1;
}

INLINE int is_fresh(const struct next_hop *next, const u64 to[2], u32 generation, u64 now)
{
    return is_equal(next->to, to) && next->generation == generation && (long long)(next->until - now) > 0;
}

/* The next hop towards `to`, or nothing. */
INLINE struct next_hop *find_next(struct xdp *ctx, const u64 from[2], const u64 to[2])
{
    u32 first = place(to, 0, NEXT_HOPS / 2) * 2, second = first + 1;
    struct next_hop *next = map_lookup(next_hops_map, &first);

    if (!next)
        return 0;
    u64 now = jiffies();
    u32 generation = (u32)node()->generation;
    if (LIKELY(is_fresh(next, to, generation, now)))
        return next;
    struct next_hop *other = map_lookup(next_hops_map, &second);
    if (!other)
        return 0;
    if (is_fresh(other, to, generation, now))
        return other;
    /* The older one gives way. */
    if ((long long)(other->until - next->until) < 0)
        next = other;
    /* Nobody must believe it while it changes. */
    next->until = 0;
    if (!ask(ctx, &next->hop, from, to))
        return 0;
    copy(next->to, to);
    next->generation = generation;
    next->until = UNLIKELY(node()->ruled) ? now : now + TICKS;
    return next;
}

#endif
