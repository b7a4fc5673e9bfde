#include <anode/capsule.h>
struct p { u8 n; u8 pad[3]; be32 x; u8 hop[32]; };
AN_CAPSULE(p, struct p)
{
    u32 d = w->payload.n * 1500u;
    w->payload.n = (u8)(d / 1000);
    return an_forward();
}
