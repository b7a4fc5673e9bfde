/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The way to the programs that were found at interfaces when ours came before them (src/kernel/found.rs). It is jumped to
 * with what is not the node's, and is there only while there is such a program.
 */
#include "wire.h"

MAP(found_map);

SECTION("xdp") int found(struct xdp *ctx)
{
    tail_call(ctx, found_map, ctx->ingress_ifindex);
    return XDP_PASS;
}
