#include <anode/capsule.h>
struct p { u8 n; u8 pad[3]; be32 x; u8 hop[32]; };
AN_CAPSULE(p, struct p)
{
    u64 sum = w->payload.n;
#pragma clang loop unroll(full)
    for (u32 i = 0; i < 30; i++)
        sum = (sum ^ sum >> 7) * (2654435761u + i);
    w->payload.n = (u8)sum;
    return an_forward();
}
