#include <anode/capsule.h>
struct p { u8 n; u8 pad[3]; be32 x; u8 hop[32]; };
static u32 deep(u32 n)
{
    if (n < 2)
        return n + (u32)an_random();
    return deep(n - 1) + deep(n - 2);
}
AN_CAPSULE(p, struct p)
{
    w->payload.n = (u8)deep(w->payload.n);
    return an_forward();
}
