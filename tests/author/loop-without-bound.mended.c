#include <anode/capsule.h>
struct p { u8 n; u8 pad[3]; be32 x; u8 hop[32]; };
AN_CAPSULE(p, struct p)
{
    u32 i = 0;
    for (u32 tries = 0; tries < 8; tries++)
        if (an_random() & 7)
            i++;
    w->payload.n = (u8)i;
    return an_forward();
}
