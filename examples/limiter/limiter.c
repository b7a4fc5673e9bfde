// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// limiter: every node on the way lets a source have RATE capsules a second to a destination, and BURST at once. The bucket is in soft
// state, under a key of both. What is too much ends at the first node, so it costs the network nothing.
#include <anode/capsule.h>

#define RATE 10
#define BURST 20
#define SECOND 1000000000ull

AN_CAPSULE(limiter, struct an_nothing)
{
    struct an_value bucket;
    u64 now = an_now(), key = an_addr_key(&w->source) ^ an_addr_key(&w->destination) * 3;

    // word[0]: what is left, in capsules times SECOND; word[1]: since when.
    if (an_state_get(key, &bucket) != 0)
        bucket.word[0] = BURST * SECOND;
    else
        bucket.word[0] += (now - bucket.word[1]) * RATE;
    if (bucket.word[0] > BURST * SECOND)
        bucket.word[0] = BURST * SECOND;
    bucket.word[1] = now;
    int pass = bucket.word[0] >= SECOND;
    if (pass)
        bucket.word[0] -= SECOND;
    an_state_put(key, &bucket, 10000);
    if (!pass)
        return an_drop();
    return ctx->flags & AN_HERE ? an_deliver() : an_forward();
}
