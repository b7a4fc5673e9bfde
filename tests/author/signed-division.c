#include <anode/capsule.h>
struct p { be64 x; };
AN_CAPSULE(p, struct p)
{
    s64 a = (s64)an_be64(w->payload.x);
    w->payload.x = an_be64((u64)(a / (s64)(an_random() | 1)));
    return an_forward();
}
