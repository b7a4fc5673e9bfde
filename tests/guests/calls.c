// Makes each call that both halves have, and writes the results into its payload.
#include <anode/capsule.h>

struct calls {
    be64 counted;
    be64 read;
    be32 neighbours;
    be32 port;
    be32 no_port;
    be32 here;
    struct an_addr neighbour;
    struct an_addr next;
    struct an_name name;
    be32 absent;
    u8 in_order;
    u8 random;
    u8 pad[2];
};

AN_CAPSULE(calls, struct calls)
{
    struct an_value value;
    struct an_addr nowhere, next;
    u64 before = an_now();

    if (ctx->flags & AN_HERE)
        return an_deliver();
    w->payload.counted = an_be64(an_state_add(7, 3, 60000));
    an_zero(&value, sizeof(value));
    value.word[0] = 0x1122334455667788ull;
    value.word[7] = w->payload.counted.network;
    an_state_put(9, &value, 1000);
    an_zero(&value, sizeof(value));
    if (an_state_get(9, &value) == 0)
        w->payload.read = an_be64(value.word[0] ^ value.word[7]);
    an_state_put(9, &value, 0);
    w->payload.absent = an_be32((u32)an_state_get(9, &value));
    w->payload.neighbours = an_be32(an_neighbours());
    an_neighbour(1, &w->payload.neighbour);
    w->payload.port = an_be32((u32)an_route(&w->destination, &w->payload.next));
    an_zero(&nowhere, sizeof(nowhere));
    nowhere.byte[0] = 0x20;
    w->payload.no_port = an_be32((u32)an_route(&nowhere, &next));
    w->payload.here = an_be32((u32)an_route(&ctx->here, &next));
    an_node_name(&w->payload.name);
    w->payload.in_order = an_now() >= before;
    w->payload.random = an_random() != an_random();
    return an_forward();
}
