// The verifier of the kernel is asked, which takes root.
#include <anode/capsule.h>
struct p { u8 n; u8 pad[3]; be32 x; u8 hop[32]; };
AN_CAPSULE(p, struct p)
{
    u32 i = 0;
    while (an_random() & 7)
        i++;
    w->payload.n = (u8)i;
    return an_forward();
}
