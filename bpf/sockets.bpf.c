/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The program at an interface with AF_XDP sockets but without a kernel half. It takes capsules and frames of channels
 * (cut.bpf.c) to these sockets, or through the stack (sockets.h), and leaves everything else to the Linux stack.
 */
#include "sockets.h"

SECTION("xdp") int sockets(struct xdp *ctx)
{
    int done = punt(ctx, 0, 0);

    if (done != XDP_PASS)
        return done;
    tail_call(ctx, program_slots_map, CUT);
    return pass(ctx);
}
