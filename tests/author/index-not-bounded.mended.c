#include <anode/capsule.h>
struct p { u8 n; u8 pad[3]; be32 x; u8 hop[32]; };
AN_CAPSULE(p, struct p)
{
    u32 found = 0;
    AN_EACH(i, w->payload.n + 1u, 32)
        found = w->payload.hop[i];
    w->payload.x = an_be32(found);
    return an_forward();
}
