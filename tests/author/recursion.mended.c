#include <anode/capsule.h>
struct p { u8 n; u8 pad[3]; be32 x; u8 hop[32]; };
AN_INLINE u32 deep(u32 n)
{
    u32 sum = 0;
    AN_EACH(i, n, 16)
        sum += (u32)an_random();
    return sum;
}
AN_CAPSULE(p, struct p)
{
    w->payload.n = (u8)deep(w->payload.n);
    return an_forward();
}
