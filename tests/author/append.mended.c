#include <anode/capsule.h>
struct p { u8 n; u8 pad[3]; be32 hop[8]; };
AN_CAPSULE(p, struct p)
{
    u8 n = w->payload.n;
    AN_EACH(i, 8, 8)
        if (i == n)
            w->payload.hop[i] = ctx->here.word[3];
    w->payload.n = n + 1;
    return an_forward();
}
