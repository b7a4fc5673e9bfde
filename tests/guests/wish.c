// Wishes on its way for the edit that its payload names, and notes what is said; at its destination it is delivered.
#include <anode/capsule.h>

struct wish {
    be32 number;
    be32 said;
};

AN_CAPSULE(wish, struct wish)
{
    if (ctx->flags & AN_HERE)
        return an_deliver();
    if (!(ctx->flags & AN_INJECTED))
        w->payload.said = an_be32((u32)an_graph_wish(an_be32(w->payload.number)));
    return an_forward();
}
