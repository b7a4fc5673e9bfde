#include <anode/capsule.h>
struct p { unsigned long x; };
AN_CAPSULE(p, struct p)
{
    return an_forward();
}
