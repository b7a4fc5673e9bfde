// The verifier of the kernel is asked, which takes root.
#include <anode/capsule.h>
struct p { u8 n; u8 pad[3]; be32 hop[8]; };
AN_CAPSULE(p, struct p)
{
    u8 n = w->payload.n;
    if (n < 8) {
        w->payload.hop[n] = ctx->here.word[3];
        w->payload.n = n + 1;
    }
    return an_forward();
}
