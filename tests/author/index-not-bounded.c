// The verifier of the kernel is asked, which takes root.
#include <anode/capsule.h>
struct p { u8 n; u8 pad[3]; be32 x; u8 hop[32]; };
AN_CAPSULE(p, struct p)
{
    w->payload.x = an_be32(w->payload.hop[w->payload.n]);
    return an_forward();
}
