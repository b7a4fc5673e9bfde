#include <anode/capsule.h>
struct p { u8 n; u8 pad[3]; be32 x; u8 hop[32]; };
static __attribute__((noinline)) u32 a(u32 x) { return x + (u32)an_random(); }
static __attribute__((noinline)) u32 b(u32 x) { return x * (u32)an_random(); }
AN_CAPSULE(p, struct p)
{
    u32 (*f)(u32) = w->payload.n ? a : b;
    w->payload.n = (u8)f(3);
    return an_forward();
}
