/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The runner: what stands around the code of a capsule in its program. The node links it anew with
 * every code (src/code/link): `capsule` below is that code, verified by the kernel for itself, over
 * the context and the window and nothing else; `constant` values are put in by the linker.
 *
 * The code returns a verdict, and another program acts on it: the code has no way to the packet but its
 * window. There is one program of a code for each place where a capsule can stand in a frame, since the
 * kernel lets a loader of few rights compute packet addresses from constants only. What it verifies for such a
 * loader is also slower (barriers against speculation), so nothing is done here that can be done elsewhere.
 */
#include "environment.h"
#include "wire.h"

/* The code, as a global function of its own. */
extern int capsule(struct context *context, struct addr *window);

SECTION("xdp") int runner(struct xdp *ctx)
{
    u32 zero = 0;
    struct current *now = map_lookup(current_map, &zero);
    struct capsule *packet_capsule = (void *)behind(packet(ctx), OFFSET);

    if (!now || behind(packet_capsule + 1, WINDOW) > packet_end(ctx))
        return XDP_ABORTED;
    now->verdict = (u32)capsule(&now->context, &packet_capsule->source);
    tail_call(ctx, act_map, 0);
    return XDP_ABORTED;
}
