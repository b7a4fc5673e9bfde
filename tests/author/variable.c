#include <anode/capsule.h>
struct p { u8 n; u8 pad[3]; be32 x; u8 hop[32]; };
static u32 counter;
AN_CAPSULE(p, struct p)
{
    counter++;
    w->payload.n = (u8)counter;
    return an_forward();
}
