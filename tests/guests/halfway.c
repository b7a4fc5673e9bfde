// Goes on from where it is injected, and is delivered to application port 7 at the next node that runs it.
#include <anode/capsule.h>

AN_CAPSULE(halfway, struct an_nothing)
{
    return ctx->flags & AN_INJECTED ? an_forward() : an_deliver_to(7);
}
