/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Runs the code of a capsule on its packet: one tail call to the code's program, which comes back with a verdict.
 */
#ifndef ANODE_CODE_H
#define ANODE_CODE_H

#include "environment.h"
#include "wire.h"

/* The code, as a global function of its own. */
extern int capsule(struct context *context, struct addr *window);

/* The window of a frame in a form. The kernel lets a loader of few rights compute packet addresses from constants only, so each form
 * has its own. */
#define window_in(data, form)                                                                                  \
    ({                                                                                                         \
        u8 *at_ = (data);                                                                                      \
        asm volatile("%0 += %1" : "+r"(at_) : "i"((form) + LOCKED));                                            \
        at_;                                                                                                   \
    })

INLINE u8 *window_of(u8 *data, u32 form)
{
    if (LIKELY(form == BEHIND_UDP))
        return window_in(data, BEHIND_UDP);
    if (form == BEHIND_UDP6)
        return window_in(data, BEHIND_UDP6);
    if (form == BEHIND_IPV4)
        return window_in(data, BEHIND_IPV4);
    return window_in(data, BEHIND_IPV6);
}

/* Runs it and notes its verdict; or not, if the packet is too short for its window. */
INLINE void run_code(struct xdp *ctx)
{
    struct current *now = map_lookup(current_map, zero_value);

    if (!now)
        return;
    u8 *window = window_of(packet(ctx), now->offset);
    if (behind(window + 2 * sizeof(struct addr), WINDOW) > packet_end(ctx))
        return;
    now->verdict = (u32)capsule(&now->context, (struct addr *)window);
    now->next = ACT;
}

#endif
