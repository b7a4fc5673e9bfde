#include <anode/capsule.h>
struct p { u8 n; u8 pad[3]; be32 x; u8 hop[32]; };
__attribute__((noinline)) u64 six(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f)
{
    return a * b + c * d + e * f + an_random();
}
AN_CAPSULE(p, struct p)
{
    w->payload.n = (u8)six(an_random(), 2, w->payload.n, 4, w->payload.hop[1], w->payload.hop[2]);
    return an_forward();
}
