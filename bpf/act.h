/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Acts on the verdict of code that has run: drops the packet, sends it to its next hop, or punts it. The user half
 * then goes on with the verdict; the code does not run twice.
 */
#ifndef ANODE_ACT_H
#define ANODE_ACT_H

#include "budget.h"
#include "flow_cache.h"
#include "parse.h"
#include "sockets.h"

/* Gives a packet whose code has run to the user half, which goes on where this stopped: with what is in a record, if there is one. */
INLINE int pass_up(struct xdp *ctx, const struct current *now, const struct cached_flow *cached, u32 verdict, const struct record *record,
                   u32 at, u64 links)
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
    up->ethertype = type;
    up->zero = 0;
    up->verdict = verdict;
    up->bound = now->bound;
    copy(up->code, capsule->code);
    copy(up->code + 2, capsule->code + 2);
    copy(up->source, now->source);
    copy(up->here, cached->hop.own);
    up->children = record ? (u16)record->sends : 0;
    up->lines = record ? (u16)record->lines : 0;
    up->record = at;
    up->number = record ? record->number : 0;
    up->links = links;
    u32 interface = ctx->ingress_ifindex;
    const struct port *port = map_lookup(ports_map, &interface);
    return port ? to_user(ctx, port, flow_place(now->source, cached->to), 0) : XDP_PASS;
}

/* A fresh header around a packet whose length has not changed: identification 0, not to be fragmented. */
INLINE void put_ipv4(struct ipv4 *ip, u32 source, u32 destination)
{
    u32 *word = (u32 *)ip;
    u32 life = (word[2] & 0xffff) - 1, whole = be16(0x4000) << 16;
    u64 sum = (u64)word[0] + whole + life + source + destination;

    word[1] = whole;
    word[2] = life | (u32)(u16)~fold(sum) << 16;
    word[3] = source;
    word[4] = destination;
}

INLINE void put_ipv6(struct ipv6 *ip, const u64 from[2], const u64 to[2])
{
    ip->word &= be32(0xfff00000);
    ip->hop_limit--;
    copy(ip->source.half, from);
    copy(ip->destination.half, to);
}

INLINE void put_udp(struct udp *udp)
{
    *(u32 *)udp = be16(PORT) | (u32)be16(PORT) << 16;
    udp->checksum = 0;
}

/* The checksum of UDP over IPv6, which must be there: over addresses, length and protocol, and all behind the IPv6 header. The code
 * may have changed anything in its window, and whoever sent the packet may have left the sum to a device. */
INLINE void sum_udp6(u8 *data, const u8 *end)
{
    struct ipv6 *ip = (void *)(data + sizeof(struct ethernet));
    struct udp *udp = (void *)(ip + 1);
    const u8 *at = (const u8 *)ip + 8;
    u64 sum = (u64)ip->length + be16(UDP);

#pragma clang loop unroll(disable)
    for (int i = 0; i < SUMMED_MAX && at + 8 <= end; i++, at += 8)
        sum += (u64) * (const u32 *)at + *(const u32 *)(at + 4);
    if (at + 4 <= end) {
        sum += *(const u32 *)at;
        at += 4;
    }
    if (at + 2 <= end) {
        sum += *(const u16 *)at;
        at += 2;
    }
    if (at + 1 <= end)
        sum += *at;
    u16 checksum = (u16)~fold(sum);
    udp->checksum = checksum ? checksum : 0xffff;
}

/* Makes of a frame, whose capsule header is within it, a packet to a next hop, with so much of the bound. */
INLINE void address(u8 *data, const u8 *end, struct capsule *capsule, u32 form, u32 bound, const struct hop *hop, const u64 from[2],
                    const u64 to[2])
{
    capsule->bound = be32(bound - 1);
    copy(capsule->previous.half, hop->own);
    if (LIKELY(form < BEHIND_IPV6))
        put_ipv4((void *)(data + sizeof(struct ethernet)), (u32)(from[1] >> 32), (u32)(to[1] >> 32));
    else
        put_ipv6((void *)(data + sizeof(struct ethernet)), from, to);
    if (LIKELY(form == BEHIND_UDP))
        put_udp((void *)(data + BEHIND_UDP - sizeof(struct anep) - sizeof(struct udp)));
    else if (form == BEHIND_UDP6) {
        put_udp((void *)(data + BEHIND_UDP6 - sizeof(struct anep) - sizeof(struct udp)));
        sum_udp6(data, end);
    }
    *(u64 *)data = *(const u64 *)hop->macs;
    *(u32 *)(data + 8) = *(const u32 *)(hop->macs + 4);
}

/* Sends the packet, whose capsule header is within it, by a next hop. */
INLINE int send(struct current *now, u8 *data, const u8 *end, struct capsule *capsule, const struct hop *hop,
                const u64 from[2], const u64 to[2], u32 form)
{
    address(data, end, capsule, form, now->bound, hop, from, to);
    int done = (int)redirect_map(transmit_map, hop->interface, 0);
    now->redirected += done == XDP_REDIRECT;
    return done;
}

/* Sends the packet to its next hop; 0 if that cannot be done here. */
INLINE int forward(struct xdp *ctx, struct current *now, const struct cached_flow *cached)
{
    u32 form = now->offset & 127;
    u8 *data = packet(ctx);
    struct capsule *capsule = (void *)(data + form);

    if ((u8 *)(capsule + 1) > packet_end(ctx) || data + BEHIND_UDP6 > packet_end(ctx))
        return 0;
    u64 from[2], to[2];
    copy(from, capsule->source.half);
    copy(to, capsule->destination.half);
    /* The packet's own source, or this node's. */
    if (!is_equal(from, now->source) && !is_equal(from, cached->hop.own))
        return 0;
    u32 length = now->bytes + form - (u32)sizeof(struct ethernet);
    int other_way = UNLIKELY(node()->ruled) && !is_equal(from, now->source);
    if (LIKELY(is_equal(to, cached->to) && is_v4(from) == (form < BEHIND_IPV6) && !other_way))
        return length > cached->hop.mtu ? 0 : send(now, data, packet_end(ctx), capsule, &cached->hop, from, to, form);
    if (is_v4(to) != is_v4(from) || is_v4(to) != (form < BEHIND_IPV6))
        return 0;
    const struct next_hop *next = find_next(ctx, from, to);
    if (!next || length > next->hop.mtu)
        return 0;
    /* Bounds again: looking for the next hop may have forgotten them. */
    data = packet(ctx);
    capsule = (void *)(data + form);
    if ((u8 *)(capsule + 1) > packet_end(ctx) || data + BEHIND_UDP6 > packet_end(ctx))
        return 0;
    return send(now, data, packet_end(ctx), capsule, &next->hop, from, to, form);
}

/* Counts a packet that goes up with a verdict, or could not. */
INLINE int raised(struct current *now, int done)
{
    if (done == XDP_ABORTED) {
        now->unraised++;
        now->dropped++;
    } else
        now->raised++;
    return done;
}

INLINE int conclude(struct xdp *ctx, struct current *now, const struct cached_flow *cached, u32 verdict)
{
    struct usage *usage = usage_of(now->slot);

    if (!usage)
        return XDP_ABORTED;
    if (verdict == VERDICT_DROP) {
        usage->by_code++;
        now->dropped++;
        return XDP_DROP;
    }
    if (verdict != VERDICT_FORWARD && (verdict & 0xffff) != VERDICT_DELIVER) {
        usage->by_verdict++;
        now->dropped++;
        return XDP_DROP;
    }
    usage->passed_up++;
    return raised(now, pass_up(ctx, now, cached, verdict, 0, 0, 0));
}

/* Acts on the verdict of code that has run. */
INLINE int finish(struct xdp *ctx, struct current *now)
{
    const struct cached_flow *cached = map_lookup(flow_cache_map, &now->cached_flow);
    u32 verdict = now->verdict;

    if (!cached)
        return XDP_ABORTED;
    if (LIKELY(verdict == VERDICT_FORWARD && now->bound)) {
        int done = forward(ctx, now, cached);
        if (LIKELY(done))
            return done;
    }
    return conclude(ctx, now, cached, verdict);
}

/* The same for most packets: they go on as their flow does. 0: this one does not. */
INLINE int finish_cached(struct xdp *ctx, struct current *now, const struct cached_flow *cached, u32 form)
{
    u8 *data = packet(ctx);
    struct capsule *capsule = (void *)(data + form);

    if (UNLIKELY(now->verdict != VERDICT_FORWARD || !now->bound || (u8 *)(capsule + 1) > packet_end(ctx)))
        return 0;
    u64 from[2], to[2];
    copy(from, capsule->source.half);
    copy(to, capsule->destination.half);
    if (UNLIKELY(!is_equal(to, cached->to) || !is_equal(from, now->source) || is_v4(from) != (form < BEHIND_IPV6)))
        return 0;
    if (UNLIKELY(now->bytes + form - (u32)sizeof(struct ethernet) > cached->hop.mtu))
        return 0;
    return send(now, data, packet_end(ctx), capsule, &cached->hop, from, to, form);
}

#endif
