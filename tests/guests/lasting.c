// As long as the kernel's verifier lets a capsule run: a chain of divisions, each of which waits for the one before.
#include <anode/capsule.h>

struct lasting {
    be32 seed;
    be32 sum;
};

AN_CAPSULE(lasting, struct lasting)
{
    u64 sum = an_be32(w->payload.seed) | 1ull << 63;

#pragma clang loop unroll(disable)
    for (u32 i = 0; i < 600; i++) {
#pragma clang loop unroll(full)
        for (u32 j = 0; j < 200; j++)
            sum = ~(sum / 3);
    }
    w->payload.sum = an_be32((u32)sum);
    return an_forward();
}
