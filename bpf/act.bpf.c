/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The station for rare verdicts. Example: code delivers a capsule to an application here, so the packet is punted to
 * the user half. The ingress acts on the frequent ones (forward, drop) itself.
 */
#include "act.h"

SECTION("xdp") int act(struct xdp *ctx)
{
    struct current *now = map_lookup(current_map, zero_value);

    return now ? finish(ctx, now) : XDP_ABORTED;
}
