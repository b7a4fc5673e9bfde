#include <anode/capsule.h>
struct p { u8 n; u8 pad[3]; be32 x; u8 hop[32]; };
u8 helper(u8 x);
AN_CAPSULE(p, struct p)
{
    w->payload.n = helper(w->payload.n);
    return an_forward();
}
