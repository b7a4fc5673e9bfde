#include <anode/capsule.h>
struct p { u8 n; u8 pad[3]; be32 x; u8 hop[32]; };
AN_CAPSULE(p, struct p)
{
    const char *names[] = { "alpha", "beta" };
    w->payload.n = (u8)names[w->payload.hop[0] & 1][w->payload.hop[1] & 3];
    return an_forward();
}
