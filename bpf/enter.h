/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Takes a capsule of a cached flow to its code: fills in the context, asks for the code's budget, runs it.
 */
#ifndef ANODE_ENTER_H
#define ANODE_ENTER_H

#include "ceiling.h"
#include "flow_cache.h"
#include "parse.h"
#include "sockets.h"

INLINE void describe(struct current *now, const struct capsule *capsule, const struct code *code, const struct cached_flow *cached,
                     const struct neighbour *neighbour, u32 length)
{
    struct context *context = &now->context;
    u32 payload = length - (u32)(sizeof(struct anep) + sizeof(*capsule));
    u32 bound = be32(capsule->bound);

    copy(context->here, cached->hop.own);
    *(u64 *)&context->payload_length = payload | (u64)code->window << 32;
    *(u64 *)&context->flags = (u64)neighbour->port << 32 | (cached->hop.mtu == HERE);
    *(u64 *)&context->from = (neighbour->number - 1) | (u64)bound << 32;
    *(u64 *)&context->app_port = be16(capsule->app_port) | (u64)node()->neighbours << 32;
    context->more[0] = context->more[1] = 0;
    now->bound = bound;
    copy(now->source, capsule->source.half);
    now->bytes = payload + (u32)sizeof(*capsule);
    now->slot = code->slot;
}

/* The codes that came first are those most used: their programs are reached without a look-up. */
INLINE void jump_first(struct xdp *ctx, u32 slot)
{
    if (slot < 5) {
        if (slot < 3) {
            if (slot == 1)
                JUMP(ctx, programs_map, 1);
            else
                JUMP(ctx, programs_map, 2);
        } else if (slot == 3)
            JUMP(ctx, programs_map, 3);
        else
            JUMP(ctx, programs_map, 4);
    } else if (slot < 7) {
        if (slot == 5)
            JUMP(ctx, programs_map, 5);
        else
            JUMP(ctx, programs_map, 6);
    } else if (slot == 7)
        JUMP(ctx, programs_map, 7);
    else
        JUMP(ctx, programs_map, 8);
}

/* Runs the program in a slot. It is jumped to from a function of its own, so it comes back to whoever has called this: programs of codes
 * jump nowhere, and what happens before and after them is one program that all of them share. What they say is in `current`; the kernel's
 * verifier does not know that they have run. */
FUNCTION int jump(struct xdp *ctx, u32 slot)
{
    if (LIKELY(slot - 1 < 8))
        jump_first(ctx, slot);
    else
        tail_call(ctx, programs_map, slot);
    return 0;
}

/* What only one packet of a share needs, apart from what all need. */
FUNCTION int take_share_apart(u32 slot, struct usage *usage, u64 now) { return take_share(slot, usage, now); }

FUNCTION int charge_apart(u32 slot, struct usage *usage, u64 time)
{
    charge(slot, usage, time);
    return 0;
}

/* Whether the domain of a code may have another packet; accounts for it if so, and notes the time if that counts. */
INLINE int admit(struct current *now, struct usage *usage, struct ceiling *ceiling)
{
    now->began = 0;
    if (UNLIKELY(!usage->left) && !take_share_apart(now->slot, usage, ktime_get_ns())) {
        usage->by_budget++;
        return 0;
    }
    if (UNLIKELY(is_timed(usage) || ceiling->left == ceiling->timed))
        now->began = ktime_get_ns();
    ceiling->left--;
    usage->left--;
    usage->packets++;
    usage->bytes += now->bytes;
    return 1;
}

/* The frame is to go on as it came: in general, or only because others of its flow are in the user half. Its code was
 * there, and `next` says what is to come. */
enum { PUNT = 16, FOLLOW, RAN };

/* Runs the program in a slot, and charges for it if it is timed: where the packet goes then. */
INLINE u32 run_in(struct xdp *ctx, struct current *now, u32 slot, struct usage *usage)
{
    now->next = LEARN;
    jump(ctx, slot);
    u32 next = *(volatile u16 *)&now->next;
    if (UNLIKELY(now->began) && next != LEARN && next != LATER && usage->left + 1 == usage->timed)
        charge_apart(slot, usage, took(now->began, slot));
    return next;
}

/* Charges the port that a timed packet came in by, for its whole share. */
FUNCTION int pay_apart(struct ceiling *ceiling, u64 began, u32 slot)
{
    if (ceiling)
        pay(ceiling, (took(began, slot) + AROUND) * SHARE);
    return 0;
}

/* Takes a capsule to its code. PUNT, if that has just gone. */
INLINE int enter(struct xdp *ctx, struct current *now, const struct capsule *capsule, const struct code *code,
                 const struct cached_flow *cached, const struct neighbour *neighbour, u32 length, u32 form)
{
    u32 slot = code->slot;
    describe(now, capsule, code, cached, neighbour, length);
    now->offset = (u16)form;
    struct usage *usage = usage_of(slot);
    struct ceiling *ceiling = ceiling_of(neighbour->port);
    if (!usage || !is_below(ceiling) || !admit(now, usage, ceiling)) {
        now->dropped++;
        return XDP_DROP;
    }
    u32 next = run_in(ctx, now, slot, usage);
    if (UNLIKELY(now->began) && ceiling->left + 1 == ceiling->timed)
        pay_apart(ceiling, now->began, slot);
    if (UNLIKELY(next == LEARN)) {
        usage->left++;
        usage->packets--;
        usage->bytes -= now->bytes;
        return PUNT;
    }
    return RAN;
}

/* Takes a packet whose code has been jumped to where that has said. */
INLINE int go_on(struct xdp *ctx, const struct current *now)
{
    if (now->next == ACT)
        JUMP(ctx, stations_map, ACT);
    else if (now->next == FAMILY)
        JUMP(ctx, stations_map, FAMILY);
    else
        JUMP(ctx, stations_map, LATER);
    return XDP_ABORTED;
}

#endif
