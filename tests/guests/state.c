// Calls soft state as its payload says, and writes the result there.
#include <anode/capsule.h>

enum operation { GET = 1, PUT = 2, ADD = 3 };

struct state {
    u8 operation;
    u8 pad[3];
    be32 keep_ms;
    u64 key;
    be64 result;
    struct an_value value;
};

AN_CAPSULE(state, struct state)
{
    struct state *s = &w->payload;
    struct an_value value;
    u32 keep_ms = an_be32(s->keep_ms);

    if (s->operation == GET) {
        s->result = an_be64((u64)(s64)an_state_get(s->key, &value));
        s->value = value;
    } else if (s->operation == PUT) {
        value = s->value;
        s->result = an_be64((u64)(s64)an_state_put(s->key, &value, keep_ms));
    } else if (s->operation == ADD) {
        s->result = an_be64(an_state_add(s->key, s->value.word[0], keep_ms));
    }
    return ctx->flags & AN_HERE ? an_deliver() : an_forward();
}
