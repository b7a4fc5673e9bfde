// Cheap or dear, as the packet says; or always dear.
#include <anode/capsule.h>

#ifndef ALWAYS
#define ALWAYS 0
#endif

struct costly {
    be32 rounds;
    be32 sum;
};

AN_CAPSULE(costly, struct costly)
{
    u32 sum = an_be32(w->payload.rounds);

    if (sum || ALWAYS) {
#pragma clang loop unroll(full)
        for (u32 i = 0; i < 700; i++)
            sum = sum * 2654435761u ^ sum >> 15;
    }
    w->payload.sum .network = sum;
    return an_forward();
}
