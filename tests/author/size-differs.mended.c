#include <anode/capsule.h>
struct p { u64 x; };
AN_CAPSULE(p, struct p)
{
    return an_forward();
}
