/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The user half's question for the way of a packet, answered by the kernel with all rules of policy routing. It makes
 * the same call as the kernel half, so both have one answer. The node runs it by BPF_PROG_TEST_RUN: the packet is the
 * question (struct bpf_fib_lookup), and afterwards the answer.
 */
#include "next_hop.h"

/* BPF_FIB_LOOKUP_SKIP_NEIGH: the user half finds link addresses out by itself. */
enum { WITHOUT_NEIGHBOUR = 4 };

SECTION("xdp") int route(struct xdp *ctx)
{
    struct fib *question = (void *)packet(ctx), fib;

    if ((const u8 *)(question + 1) > packet_end(ctx))
        return -1;
    fib = *question;
    int done = (int)fib_lookup(ctx, &fib, sizeof(fib), WITHOUT_NEIGHBOUR);
    question = (void *)packet(ctx);
    if ((const u8 *)(question + 1) > packet_end(ctx))
        return -1;
    *question = fib;
    return done;
}
