/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Acts on verdicts of sandboxed code (runner.bpf.c): one program for all codes, and our own.
 */
#include "act.h"

SECTION("xdp") int act(struct xdp *ctx)
{
    struct current *now = map_lookup(current_map, zero_value);

    return now ? finish(ctx, now) : XDP_ABORTED;
}
