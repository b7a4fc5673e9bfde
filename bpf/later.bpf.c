/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The second try of a packet whose code found no free record: to its code again if there is one by now, else to the
 * user half as it came.
 */
#include "enter.h"
#include "children.h"

SECTION("xdp") int later(struct xdp *ctx)
{
    struct current *now = map_lookup(current_map, zero_value);
    struct window *own = map_lookup(window_map, zero_value);

    if (!now || !own)
        return XDP_ABORTED;
    u32 slot = now->slot;
    struct usage *usage = usage_of(slot);
    struct replicas *replicas = map_lookup(replicas_map, &slot);
    if (!usage || !replicas)
        return XDP_ABORTED;
    if (!own->ready) {
        prepare(own);
        if (own->ready && run_in(ctx, now, slot, usage) == FAMILY)
            return go_on(ctx, now);
    }
    usage->left++;
    usage->packets--;
    usage->bytes -= now->bytes;
    replicas->later++;
    now->punted++;
    return punt(ctx, 1, 0);
}
