// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// aggregate: readings of many sources become one on their way. A node waits until `fan` have come in a round, adds them up, and sends
// one capsule on in the place of all. So a link carries one capsule a round, whatever the number of sources behind it.
//
// Soft state is enough: a reading that is lost is missing in its round, and a round that is never complete is forgotten.
#include <anode/capsule.h>

#define KEEP_MS 5000

struct aggregate {
    // Rounds do not mix.
    be32 round;
    // How many capsules come to a node in a round.
    be32 fan;
    // Readings in this capsule, and their sum.
    be32 readings;
    be32 sum;
};

AN_CAPSULE(aggregate, struct aggregate)
{
    struct an_value all;
    u64 round = an_be32(w->payload.round);

    if (ctx->flags & AN_INJECTED)
        return an_forward();
    // word[0]: capsules that have come; word[1]: their readings; word[2]: the sum of these.
    an_state_get(round, &all);
    all.word[0] += 1;
    all.word[1] += an_be32(w->payload.readings);
    all.word[2] += an_be32(w->payload.sum);
    if (all.word[0] < an_be32(w->payload.fan)) {
        an_state_put(round, &all, KEEP_MS);
        return an_drop();
    }
    an_state_put(round, &all, 0);
    w->payload.readings = an_be32((u32)all.word[1]);
    w->payload.sum = an_be32((u32)all.word[2]);
    return ctx->flags & AN_HERE ? an_deliver() : an_forward();
}
