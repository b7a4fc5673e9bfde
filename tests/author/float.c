#include <anode/capsule.h>
struct p { u8 n; u8 pad[3]; be32 x; u8 hop[32]; };
AN_CAPSULE(p, struct p)
{
    double d = w->payload.n * 1.5;
    w->payload.n = (u8)d;
    return an_forward();
}
