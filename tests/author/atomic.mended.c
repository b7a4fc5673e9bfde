#include <anode/capsule.h>
struct p { u32 count; };
AN_CAPSULE(p, struct p)
{
    w->payload.count += 1;
    return an_forward();
}
