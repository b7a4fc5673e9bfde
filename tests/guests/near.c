// Writes down, at each node between its ends, how many neighbours that has and who they are.
#include <anode/capsule.h>

struct listed {
    be32 count;
    be32 told;
    struct an_addr at[8];
};

AN_CAPSULE(near, struct listed)
{
    if (ctx->flags & AN_HERE)
        return an_deliver();
    if (ctx->in_port != AN_NONE) {
        w->payload.count = an_be32(an_neighbours());
        w->payload.told = an_be32(ctx->neighbours);
        AN_EACH(i, 8, 8)
            an_neighbour(i, &w->payload.at[i]);
    }
    return an_forward();
}
