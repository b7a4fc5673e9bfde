#include <anode/capsule.h>
struct p { u8 n; u8 pad[3]; be32 x; u8 hop[32]; };
static __attribute__((noinline)) u32 a(u32 x) { return x + (u32)an_random(); }
static __attribute__((noinline)) u32 b(u32 x) { return x * (u32)an_random(); }
AN_CAPSULE(p, struct p)
{
    w->payload.n = (u8)(w->payload.n ? a(3) : b(3));
    return an_forward();
}
