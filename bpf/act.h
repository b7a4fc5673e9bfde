/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Acts on the verdict of code that has run: drops the packet, sends it to its next hop, or gives it to the user half, which
 * goes on where this stops.
 */
#ifndef ANODE_ACT_H
#define ANODE_ACT_H

#include "budget.h"
#include "next_hop.h"
#include "sockets.h"

enum { VERDICT_DROP = 0, VERDICT_FORWARD = 1, VERDICT_DELIVER = 2 };

/* Gives a packet whose code has run to the user half, which goes on where this stopped. */
INLINE int pass_up(struct xdp *ctx, const struct current *now, struct usage *usage, u32 verdict)
{
    if (xdp_adjust_head(ctx, -(int)sizeof(struct passed_up)))
        return XDP_ABORTED;
    u8 *data = packet(ctx);
    const struct ethernet *before = (const void *)(data + sizeof(struct passed_up));
    const struct capsule *capsule = (const void *)((const u8 *)before + (now->offset & 127));
    struct ethernet *ethernet = (void *)data;
    struct passed_up *up = (void *)(ethernet + 1);

    if ((const u8 *)(capsule + 1) > packet_end(ctx) || (const u8 *)(before + 1) > packet_end(ctx))
        return XDP_ABORTED;
    u16 type = before->type;
#pragma clang loop unroll(full)
    for (int i = 0; i < 6; i++)
        ethernet->macs[i] = before->macs[i];
    ethernet->type = be16(PASSED_UP);
    up->verdict = verdict;
    up->bound = now->bound;
    copy(up->code, capsule->code);
    copy(up->code + 2, capsule->code + 2);
    copy(up->source, now->source);
    copy(up->here, now->here);
    up->ethertype = type;
    usage->passed_up++;
    u32 interface = ctx->ingress_ifindex;
    const struct port *port = map_lookup(ports_map, &interface);
    return port ? to_user(ctx, port, flow_place(now->source, now->to), 0) : XDP_PASS;
}

INLINE void put_ipv4(struct ipv4 *ip, u32 source, u32 destination)
{
    ip->identification = 0;
    ip->fragment = be16(0x4000);
    ip->ttl--;
    ip->source = source;
    ip->destination = destination;
    sum_ipv4(ip);
}

/* Sends the packet to its next hop; 0 if that cannot be done here. */
INLINE int forward(struct xdp *ctx, const struct current *now)
{
    u32 offset = now->offset & 127;
    u8 *data = packet(ctx);
    struct ethernet *ethernet = (void *)data;
    struct capsule *capsule = (void *)(data + offset);

    if ((u8 *)(capsule + 1) > packet_end(ctx))
        return 0;
    u64 from[2], to[2];
    copy(from, capsule->source.half);
    copy(to, capsule->destination.half);
    if (is_v4(to) != is_v4(from) || is_v4(to) != (offset != BEHIND_IPV6))
        return 0;
    u32 place;
    const struct next_hop *next =
        is_equal(to, now->to) ? map_lookup(next_hops_map, &now->next) : find_next(ctx, from, to, &place);
    if (!next || now->bytes + offset - sizeof(*ethernet) > next->mtu)
        return 0;
    /* Bounds again: looking for the next hop may have forgotten them. */
    data = packet(ctx);
    ethernet = (void *)data;
    capsule = (void *)(data + offset);
    if ((u8 *)(capsule + 1) > packet_end(ctx) || data + 54 > packet_end(ctx))
        return 0;
    capsule->bound = be32(now->bound - 1);
    copy(capsule->previous.half, next->own);
    if (offset != BEHIND_IPV6) {
        put_ipv4((void *)(ethernet + 1), (u32)(from[1] >> 32), (u32)(to[1] >> 32));
        if (offset == BEHIND_UDP)
            *(u16 *)(data + 34) = be16(PORT);
    } else {
        struct ipv6 *ip = (void *)(ethernet + 1);
        ip->word &= be32(0xfff00000);
        ip->hop_limit--;
        copy(ip->source.half, from);
        copy(ip->destination.half, to);
    }
    __builtin_memcpy(ethernet->macs, next->macs, sizeof(ethernet->macs));
    return (int)redirect_map(transmit_map, next->interface, 0);
}

/* Whether the code left a source that may be there: the packet's own, or this node's. */
INLINE int is_honest(const struct capsule *capsule, const struct current *now)
{
    return is_equal(capsule->source.half, now->source) || is_equal(capsule->source.half, now->here);
}

INLINE int conclude(struct xdp *ctx, const struct current *now, struct usage *usage, u32 verdict)
{
    if (verdict == VERDICT_DROP) {
        usage->by_code++;
        return XDP_DROP;
    }
    if (verdict != VERDICT_FORWARD && (verdict & 0xffff) != VERDICT_DELIVER) {
        usage->by_verdict++;
        return XDP_DROP;
    }
    const struct capsule *capsule = (const void *)(packet(ctx) + (now->offset & 127));
    if ((const u8 *)(capsule + 1) > packet_end(ctx))
        return XDP_ABORTED;
    if (verdict == VERDICT_FORWARD && now->bound && is_honest(capsule, now)) {
        int done = forward(ctx, now);
        if (LIKELY(done)) {
            usage->forwarded++;
            return done;
        }
    }
    return pass_up(ctx, now, usage, verdict);
}

/* Accounts for a packet whose code has run, and acts on its verdict. */
INLINE int finish(struct xdp *ctx, const struct current *now)
{
    struct usage *usage = map_lookup(usage_map, &now->slot);

    if (!usage)
        return XDP_ABORTED;
    usage->packets++;
    usage->bytes += now->bytes;
    if (UNLIKELY(now->began))
        charge(now->slot, usage, ktime_get_ns() - now->began);
    return conclude(ctx, now, usage, now->verdict);
}

#endif
