// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// congestion: a capsule that finds more than LIMIT bytes waiting before it says so in a mark, as ECN does. The destination counts what
// came, marked and not, and leaves both numbers in the capsule.
#include <anode/capsule.h>

#define LIMIT 4000
#define KEEP_MS 60000

struct congestion {
    // The longest queue on the way, in bytes.
    be32 queue;
    be32 marked;
    // Of all capsules that came to the destination: how many, and how many of them had a mark.
    be32 all;
    be32 with_mark;
};

AN_CAPSULE(congestion, struct congestion)
{
    struct an_addr next;

    if (ctx->flags & AN_HERE) {
        w->payload.all = an_be32((u32)an_state_add(1, 1, KEEP_MS));
        w->payload.with_mark = an_be32((u32)an_state_add(2, w->payload.marked.network ? 1 : 0, KEEP_MS));
        return an_deliver();
    }
    int port = an_route(&w->destination, &next);
    u32 queue = port < 0 ? 0 : an_link_queue((u32)port);
    if (queue != AN_NONE && queue > an_be32(w->payload.queue))
        w->payload.queue = an_be32(queue);
    if (queue != AN_NONE && queue > LIMIT)
        w->payload.marked = an_be32(1u);
    return an_forward();
}
