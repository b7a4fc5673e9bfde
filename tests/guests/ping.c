// Goes to its destination, turns round there, and is delivered where it came from.
#include <anode/capsule.h>

struct ping {
    be32 sequence;
    u8 turned;
    u8 pad[3];
    be64 sent;
};

AN_CAPSULE(ping, struct ping)
{
    if (!(ctx->flags & AN_HERE))
        return an_forward();
    if (w->payload.turned)
        return an_deliver();
    w->payload.turned = 1;
    w->destination = w->source;
    w->source = ctx->here;
    return an_forward();
}
