#include <anode/capsule.h>
struct p { be64 x; };
AN_CAPSULE(p, struct p)
{
    u64 a = (an_random() >> 32) * (an_random() >> 32);
    w->payload.x = an_be64(a >> 32);
    return an_forward();
}
