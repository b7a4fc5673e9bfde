// A bounded loop, a function that is not inlined and a large structure assignment.
#include <anode/capsule.h>

struct table {
    be32 cell[32];
};

static __attribute__((noinline)) u32 mix(u32 a, u32 b)
{
    a ^= b;
    return a * 2654435761u ^ a >> 15;
}

AN_CAPSULE(loop, struct table)
{
    struct table copy = w->payload;
    u32 sum = 1;
    for (u32 i = 0; i < 32; i++)
        sum = mix(sum, an_be32(copy.cell[i]));
    for (u32 i = 0; i < 32; i++)
        w->payload.cell[i] = an_be32(sum + i);
    return sum & 1 ? an_forward() : an_drop();
}
