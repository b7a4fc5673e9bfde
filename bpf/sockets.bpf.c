/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * What stands at an interface whose capsules go to AF_XDP sockets, without a kernel half: takes them there (or up, see
 * sockets.h), and frames of channels (cut.bpf.c), and leaves everything else to the Linux stack.
 */
#include "sockets.h"

SECTION("xdp") int sockets(struct xdp *ctx)
{
    int done = lift(ctx, 0, 0);

    if (done != XDP_PASS)
        return done;
    tail_call(ctx, doors_map, CUT);
    return XDP_PASS;
}
