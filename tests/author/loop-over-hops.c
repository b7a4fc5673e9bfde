// The verifier of the kernel is asked, which takes root.
#include <anode/capsule.h>
struct p { u8 n; u8 pad[3]; be32 hop[8]; };
AN_CAPSULE(p, struct p)
{
    for (u32 i = 0; i < w->payload.n; i++)
        if (w->payload.hop[i].network == ctx->here.half[3])
            return an_drop();
    return an_forward();
}
