// The smallest capsule: goes on to its destination and is delivered there.
#include <anode/capsule.h>

AN_CAPSULE(forward, struct an_nothing)
{
    return ctx->flags & AN_HERE ? an_deliver() : an_forward();
}
