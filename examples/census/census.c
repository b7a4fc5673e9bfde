// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// census: how many different nodes have sent something here? The destination keeps a mark for each source, counts those that are new, and
// sends the count back.
#include <anode/capsule.h>

#define KEEP_MS 60000
#define COUNT 1

struct census {
    be32 nodes;
    be32 turned;
};

AN_CAPSULE(census, struct census)
{
    struct an_value mark;

    if (!(ctx->flags & AN_HERE))
        return an_forward();
    if (w->payload.turned.network)
        return an_deliver();
    // Who exchanges the mark first has counted the node, also if two capsules are handled at the same time.
    an_zero(&mark, sizeof(mark));
    mark.word[0] = 1;
    int is_new = an_state_exchange(an_addr_key(&w->source) | 1ull << 63, 0, &mark, KEEP_MS) == 0;
    w->payload.nodes = an_be32((u32)an_state_add(COUNT, (u64)is_new, KEEP_MS));
    w->payload.turned = an_be32(1u);
    w->destination = w->source;
    w->source = ctx->here;
    return an_forward();
}
