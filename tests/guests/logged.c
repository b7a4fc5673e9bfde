// As forward.c, with a line in the log at each node: a call that only the user half has.
#include <anode/capsule.h>

AN_CAPSULE(logged, struct an_nothing)
{
    an_log(1, ctx->bound);
    return ctx->flags & AN_HERE ? an_deliver() : an_forward();
}
