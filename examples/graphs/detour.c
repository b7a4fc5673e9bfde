// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// detour: a capsule that finds more bytes waiting before it than it was told wishes that the node leads ordinary packets another way, by
// edit 0 of the node's graph, and else the straight way, by edit 1. What these edits are the node's operator has written (docs/graphs.md).
#include <anode/capsule.h>

enum { AROUND, STRAIGHT };

struct detour {
    // From how many bytes on a queue is too long.
    be32 limit;
    // How many nodes on the way have taken the wish on.
    be32 taken;
};

AN_CAPSULE(detour, struct detour)
{
    struct an_addr next;

    if (ctx->flags & AN_HERE)
        return an_deliver();
    int port = an_route(&w->destination, &next);
    u32 queue = port < 0 ? AN_NONE : an_link_queue((u32)port);
    if (queue == AN_NONE)
        return an_forward();
    if (an_graph_wish(queue >= an_be32(w->payload.limit) ? AROUND : STRAIGHT) == 0)
        w->payload.taken = an_be32(an_be32(w->payload.taken) + 1);
    return an_forward();
}
