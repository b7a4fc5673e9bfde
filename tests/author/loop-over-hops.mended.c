#include <anode/capsule.h>
struct p { u8 n; u8 pad[3]; be32 hop[8]; };
AN_CAPSULE(p, struct p)
{
    AN_EACH(i, w->payload.n, 8)
        if (w->payload.hop[i].network == ctx->here.half[3])
            return an_drop();
    return an_forward();
}
