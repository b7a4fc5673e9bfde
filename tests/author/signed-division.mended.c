#include <anode/capsule.h>
struct p { be64 x; };
AN_CAPSULE(p, struct p)
{
    u64 a = an_be64(w->payload.x);
    w->payload.x = an_be64(a / (an_random() | 1));
    return an_forward();
}
