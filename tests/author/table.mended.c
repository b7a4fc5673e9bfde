#include <anode/capsule.h>
struct p { u8 n; u8 pad[3]; be32 x; u8 hop[32]; };
AN_CAPSULE(p, struct p)
{
    switch (w->payload.n & 1) {
    case 0: w->payload.n = 1; break;
    default: w->payload.n = 9; break;
    }
    return an_forward();
}
