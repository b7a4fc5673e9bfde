/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The runner of code in a role that is trusted (docs/trust.md): as runner.bpf.c, but loaded with the node's own rights, so without
 * barriers against speculation, and it acts on the verdict itself.
 */
#include "act.h"
#include "environment.h"

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
    return finish(ctx, now);
}
