// Changes a number or a value in soft state as its payload says, and writes the result there.
#include <anode/capsule.h>

enum operation { MAX = 1, EXCHANGE = 2, RENEW = 3 };

struct changes {
    u8 operation;
    u8 pad[3];
    be32 keep_ms;
    u64 key;
    u64 number;
    be64 result;
    struct an_value value;
};

AN_CAPSULE(changes, struct changes)
{
    struct changes *c = &w->payload;
    struct an_value value = c->value;
    u32 keep_ms = an_be32(c->keep_ms);

    if (c->operation == MAX) {
        c->result = an_be64(an_state_max(c->key, c->number, keep_ms));
    } else if (c->operation == EXCHANGE) {
        c->result = an_be64((u64)(s64)an_state_exchange(c->key, c->number, &value, keep_ms));
    } else if (c->operation == RENEW) {
        // Counts in two words at once; how often somebody else was first is the result.
        int tries = 0;
        for (; tries < 8; tries++) {
            an_state_get(c->key, &value);
            value.word[1] += c->number;
            if (an_state_exchange(c->key, value.word[0]++, &value, keep_ms) != AN_E_CHANGED)
                break;
        }
        c->result = an_be64((u64)tries);
    }
    an_state_get(c->key, &c->value);
    return ctx->flags & AN_HERE ? an_deliver() : an_forward();
}
