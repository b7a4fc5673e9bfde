// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// lookup: asks the destination for the value of a key. The answer leaves a copy in the soft state of each node on its way back, and who
// asks next has it from the nearest node that still has one. The source of the answer says which.
#include <anode/capsule.h>

#define KEEP_MS 30000

struct lookup {
    be32 key;
    be32 answered;
    be64 value;
};

AN_CAPSULE(lookup, struct lookup)
{
    struct an_value copy;
    u64 key = an_be32(w->payload.key);
    int has = 0;

    if (w->payload.answered.network) {
        an_zero(&copy, sizeof(copy));
        copy.word[0] = an_be64(w->payload.value);
        an_state_put(key, &copy, KEEP_MS);
        return ctx->flags & AN_HERE ? an_deliver() : an_forward();
    }
    if (an_state_get(key, &copy) == 0) {
        has = 1;
    } else if (ctx->flags & AN_HERE) {
        // What this node knows by itself: here the square of the key.
        copy.word[0] = key * key;
        has = 1;
    }
    if (has) {
        w->payload.value = an_be64(copy.word[0]);
        w->payload.answered = an_be32(1u);
        w->destination = w->source;
        w->source = ctx->here;
    }
    return an_forward();
}
