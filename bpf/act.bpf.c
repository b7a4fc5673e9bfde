/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Acts on verdicts that the ingress does not act on itself.
 */
#include "act.h"

SECTION("xdp") int act(struct xdp *ctx)
{
    struct current *now = map_lookup(current_map, zero_value);

    return now ? finish(ctx, now) : XDP_ABORTED;
}
