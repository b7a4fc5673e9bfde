#include <anode/capsule.h>
struct p { be64 x; };
AN_CAPSULE(p, struct p)
{
    __int128 a = (__int128)an_random() * (__int128)an_random();
    w->payload.x = an_be64((u64)(a >> 64));
    return an_forward();
}
