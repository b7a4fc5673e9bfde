// One level of the reversible 5/3 wavelet (ISO/IEC 15444-1, annex F) of 1,024 samples: work that pays for an optimiser.
#include <anode/capsule.h>
#include "scratch.h"

#define SAMPLES 1024

struct seed { s32 first, last; };

AN_CAPSULE(wavelet, struct seed)
{
    SCRATCH(s32, x, SAMPLES + 4);
    s32 before = 0;
    x[0] = w->payload.first;
    x[SAMPLES] = w->payload.last;
    UNROLL for (u32 i = 0; i < SAMPLES; i += 2) {
        s32 high = x[i + 1] - ((x[i] + x[i + 2]) >> 1);
        x[i] += (before + high + 2) >> 2;
        x[i + 1] = before = high;
    }
    w->payload.first = x[1];
    w->payload.last = x[SAMPLES - 2];
    return an_forward();
}
