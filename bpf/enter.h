/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Takes a capsule of a known flow to its code: says where it is, asks for the code's budget, jumps.
 */
#ifndef ANODE_ENTER_H
#define ANODE_ENTER_H

#include "budget.h"
#include "known.h"
#include "parse.h"
#include "sockets.h"

/* The number of a form. */
INLINE u32 number_of(u32 form)
{
    return form == BEHIND_IPV4 ? 0 : form == BEHIND_UDP ? 1 : form == BEHIND_IPV6 ? 2 : 3;
}

INLINE void describe(struct current *now, const struct capsule *capsule, const struct known *known, u32 length)
{
    struct context *context = &now->context;
    u32 payload = length - (u32)(sizeof(struct anep) + sizeof(*capsule));
    u32 bound = be32(capsule->bound);

    copy(context->here, known->hop.own);
    *(u64 *)&context->payload_length = payload | (u64)known->window << 32;
    *(u64 *)&context->flags = (u64)known->in_port << 32 | (known->hop.mtu == HERE);
    *(u64 *)&context->from = known->from | (u64)bound << 32;
    *(u64 *)&context->app_port = be16(capsule->app_port) | (u64)node()->neighbours << 32;
    context->more[0] = context->more[1] = 0;
    now->bound = bound;
    copy(now->source, capsule->source.half);
    now->bytes = payload + (u32)sizeof(*capsule);
    now->slot = known->slot;
}

/* A jump to the program with this number: fixed in the code, so the kernel makes it a direct one. */
#define JUMP(ctx, number)                                                                                      \
    asm volatile("r1 = %0\n\tr2 = %1\n\tr3 = %2\n\tcall 12"                                                  \
                 :                                                                                             \
                 : "r"(ctx), "r"(programs_map), "i"(number)                                                    \
                 : "r0", "r1", "r2", "r3", "r4", "r5")

/* The codes that came first are those most used: their programs are reached without a look-up. */
INLINE void jump_first(struct xdp *ctx, u32 slot)
{
    if (slot < 5) {
        if (slot < 3) {
            if (slot == 1)
                JUMP(ctx, 1 + PROGRAMS);
            else
                JUMP(ctx, 2 + PROGRAMS);
        } else if (slot == 3)
            JUMP(ctx, 3 + PROGRAMS);
        else
            JUMP(ctx, 4 + PROGRAMS);
    } else if (slot < 7) {
        if (slot == 5)
            JUMP(ctx, 5 + PROGRAMS);
        else
            JUMP(ctx, 6 + PROGRAMS);
    } else if (slot == 7)
        JUMP(ctx, 7 + PROGRAMS);
    else
        JUMP(ctx, 8 + PROGRAMS);
}

/* Whether the domain of a code may have another packet; accounts for it if so. */
INLINE int admit(struct current *now, struct usage *usage)
{
    now->began = 0;
    if (UNLIKELY(!usage->left)) {
        now->began = ktime_get_ns();
        if (!take_share(now->slot, usage, now->began)) {
            usage->by_budget++;
            return 0;
        }
    }
    usage->left--;
    usage->packets++;
    usage->bytes += now->bytes;
    return 1;
}

/* Takes a capsule to its code. Comes back if it is over the budget, or if its code has just gone. */
INLINE int enter(struct xdp *ctx, struct current *now, const struct capsule *capsule, const struct known *known, u32 length,
                 u32 form)
{
    u32 slot = known->slot;

    describe(now, capsule, known, length);
    now->offset = form;
    struct usage *usage = map_lookup(usage_map, &now->slot);
    if (!usage || !admit(now, usage))
        return XDP_DROP;
    if (form == BEHIND_UDP && LIKELY(slot <= 8))
        jump_first(ctx, slot);
    else
        tail_call(ctx, programs_map, slot + number_of(form) * PROGRAMS);
    usage->left++;
    usage->packets--;
    usage->bytes -= now->bytes;
    return XDP_PASS;
}

#endif
