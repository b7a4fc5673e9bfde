#include <anode/capsule.h>
struct p { u8 n; u8 pad[3]; be32 x; u8 hop[32]; };
AN_CAPSULE(p, struct p)
{
    w->payload.x = w->payload.x + 1;
    return an_forward();
}
