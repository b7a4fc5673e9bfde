#include <anode/capsule.h>
struct p { u32 count; };
AN_CAPSULE(p, struct p)
{
    __sync_fetch_and_add(&w->payload.count, 1);
    return an_forward();
}
