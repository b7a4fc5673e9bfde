// Uses every symbol once; the sum of the answers goes into the payload.
#include <anode/capsule.h>

struct symbols {
    be64 sum;
    be32 count;
    be32 failed;
};

AN_CAPSULE(symbols, struct symbols)
{
    struct an_name name;
    struct an_value value;
    struct an_addr addr;
    u64 sum = an_now() + an_random();
    int failed = 0;

    an_zero(&value, sizeof(value));
    failed |= an_node_name(&name);
    sum += an_load(8, 4) + name.word[0];
    failed |= an_store(12, sum, 4);
    failed |= an_state_get(1, &value);
    value.word[1] = sum;
    failed |= an_state_put(1, &value, 1000);
    sum += an_state_add(2, 1, 1000) + an_state_max(3, 7, 1000) + an_neighbours();
    failed |= an_state_exchange(4, 0, &value, 1000);
    failed |= an_neighbour(0, &addr);
    failed |= an_route(&w->destination, &addr);
    sum += an_link_load(0) + an_link_queue(0);
    failed |= an_send(1);
    failed |= an_log(1, sum);
    failed |= an_graph_wish(1) == AN_E_DENIED ? 0 : 1;
    w->payload.sum = an_be64(sum);
    w->payload.failed = an_be32((u32)failed);
    return an_forward();
}
