#include <anode/capsule.h>
struct p { u8 n; u8 pad[3]; be32 x; u8 hop[32]; };
AN_CAPSULE(p, struct p)
{
    w->payload.n = w->payload.hop[0] & 1 ? 'b' : 'a';
    return an_forward();
}
