// As forward.c, with a look at its payload: a call that only the user half has.
#include <anode/capsule.h>

AN_CAPSULE(loads, struct an_nothing)
{
    if (an_load(0, 1) == AN_NONE64)
        return an_drop();
    return ctx->flags & AN_HERE ? an_deliver() : an_forward();
}
