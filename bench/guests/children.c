// Sends COUNT children to 198.19.0.1 and the addresses after it in the place of every packet: all but the last by
// an_send; the packet itself is the last. A child has a bound of 1 when it has left.
//
// With a COUNT of 1 it could send, and forwards.
#include <anode/capsule.h>

#ifndef COUNT
#define COUNT 2
#endif

AN_CAPSULE(children, struct an_nothing)
{
#if COUNT > 1
    for (u32 i = 0; i < 3; i++)
        w->destination.word[i] = an_be32(i == 2 ? 0x0000ffff : 0);
    for (u32 k = 1; k < COUNT; k++) {
        w->destination.word[3] = an_be32(0xc6130000 + k);
        if (an_send(2) != 0)
            return an_drop();
    }
    w->destination.word[3] = an_be32(0xc6130000 + COUNT);
#else
    if (ctx->flags & AN_INJECTED)
        an_send(1);
#endif
    return an_forward();
}
