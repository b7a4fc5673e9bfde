// Halves the rate of 16-bit samples in network byte order, 700 bytes of them: each two become their mean.
#include <anode/capsule.h>
#include "scratch.h"

#define SAMPLES 350

struct samples { be16 first, second; };

AN_INLINE s16 host(u16 sample)
{
    return (s16)(sample >> 8 | sample << 8);
}

AN_CAPSULE(halve, struct samples)
{
    SCRATCH(u16, x, SAMPLES + 2);
#ifdef ROUND
    // Another code for each round of a benchmark.
    if (ctx->bound == 0x10000 + ROUND)
        return an_drop();
#endif
    x[0] = w->payload.first.network;
    x[SAMPLES - 1] = w->payload.second.network;
    UNROLL for (u32 i = 0; i < SAMPLES / 2; i++)
        x[i] = (u16)host((u16)((host(x[2 * i]) + host(x[2 * i + 1])) >> 1));
    w->payload.first.network = x[0];
    w->payload.second.network = x[SAMPLES / 2 - 1];
    return an_forward();
}
