#include <anode/capsule.h>
struct p { u8 n; u8 pad[3]; be32 x; u8 hop[32]; };
AN_CAPSULE(p, struct p)
{
    u32 sum = 0;
    for (u32 i = 0; i < 20; i++)
        sum += w->payload.hop[i];
    w->payload.n = (u8)sum;
    return an_forward();
}
