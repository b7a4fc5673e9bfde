// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// telemetry: goes to its destination and back, and writes down each node where it was: its address, what waits on the link by which
// the capsule leaves there, and how busy that link is. The packet itself is the measurement.
#include <anode/capsule.h>

#define HOPS 8

struct hop {
    struct an_addr node;
    // Bytes, and thousandths; all ones: not known.
    be32 queue;
    be32 load;
};

struct telemetry {
    be32 hops;
    be32 turned;
    struct hop hop[HOPS];
};

AN_CAPSULE(telemetry, struct telemetry)
{
    struct an_addr next;
    u32 count = an_be32(w->payload.hops);

    if (ctx->flags & AN_HERE) {
        if (w->payload.turned.network)
            return an_deliver();
        w->payload.turned = an_be32(1u);
        w->destination = w->source;
        w->source = ctx->here;
    }
    int port = an_route(&w->destination, &next);
    if (port < 0)
        return an_drop();
    AN_EACH(i, HOPS, HOPS) {
        if (i == count) {
            w->payload.hop[i].node = ctx->here;
            w->payload.hop[i].queue = an_be32(an_link_queue((u32)port));
            w->payload.hop[i].load = an_be32(an_link_load((u32)port));
        }
    }
    w->payload.hops = an_be32(count + 1);
    return an_forward();
}
