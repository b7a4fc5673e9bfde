/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Runs the code of a capsule on its packet, in the runner of either form.
 */
#ifndef ANODE_CODE_H
#define ANODE_CODE_H

#include "environment.h"
#include "wire.h"

/* The code, as a global function of its own. */
extern int capsule(struct context *context, struct addr *window);

/* Runs it and notes its verdict; nothing if the packet is too short for its window. */
INLINE struct current *run_code(struct xdp *ctx)
{
    struct current *now = map_lookup(current_map, zero_value);
    struct capsule *packet_capsule = (void *)behind(packet(ctx), OFFSET);

    if (!now || behind(packet_capsule + 1, WINDOW) > packet_end(ctx))
        return 0;
    now->verdict = (u32)capsule(&now->context, &packet_capsule->source);
    return now;
}

#endif
