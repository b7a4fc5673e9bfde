/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Where a packet goes next: the kernel's own routes and link addresses, remembered for a moment.
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
    u32 vlan;
    u16 own_mac[3], mac[3];
};
_Static_assert(sizeof(struct fib) == 64, "the kernel's structure");

enum { INET = 2, INET6 = 10 };

/* Asks the kernel. False if the way leads nowhere, to this host, or out of what the node knows. */
INLINE int ask(struct xdp *ctx, struct next_hop *next, const u64 from[2], const u64 to[2], u64 generation, u64 now)
{
    int v4 = is_v4(to);
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
    if (fib_lookup(ctx, &fib, sizeof(fib), 0))
        return 0;
    u32 interface = fib.interface;
    struct port *port = map_lookup(ports_map, &interface);
    if (!port || !port->present)
        return 0;
    copy(next->own, v4 ? port->v4 : port->v6);
    if (!(next->own[0] | next->own[1]))
        return 0;
    copy(next->to, to);
    next->interface = interface;
    next->mtu = fib.length < port->mtu ? fib.length : port->mtu;
    next->macs[0] = fib.mac[0];
    next->macs[1] = fib.mac[1];
    next->macs[2] = fib.mac[2];
    next->macs[3] = fib.own_mac[0];
    next->macs[4] = fib.own_mac[1];
    next->macs[5] = fib.own_mac[2];
    next->generation = generation;
    next->until = now + TICKS;
    return 1;
}

INLINE int is_fresh(const struct next_hop *next, const u64 to[2], u64 generation, u64 now)
{
    return is_equal(next->to, to) && next->generation == generation && (long long)(next->until - now) > 0;
}

/* The next hop towards `to`, or nothing; and its place. */
INLINE struct next_hop *find_next(struct xdp *ctx, const u64 from[2], const u64 to[2], u32 *at)
{
    u32 zero = 0, first = place(to, 0, NEXT_HOPS / 2) * 2, second = first + 1;
    struct node *node = map_lookup(node_map, &zero);
    struct next_hop *next = map_lookup(next_hops_map, &first);

    if (!node || !next)
        return 0;
    u64 now = jiffies(), generation = *(volatile u64 *)&node->generation;
    *at = first;
    if (LIKELY(is_fresh(next, to, generation, now)))
        return next;
    struct next_hop *other = map_lookup(next_hops_map, &second);
    if (!other)
        return 0;
    if (is_fresh(other, to, generation, now)) {
        *at = second;
        return other;
    }
    /* The older one gives way. */
    if ((long long)(other->until - next->until) < 0) {
        next = other;
        *at = second;
    }
    /* Nobody must believe it while it changes. */
    next->until = 0;
    return ask(ctx, next, from, to, generation, now) ? next : 0;
}

#endif
