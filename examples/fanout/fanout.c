// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// fanout: one capsule to four receivers. It goes as one as far as they have a way in common, and is doubled where the ways part: a link
// carries it once. The receivers are IPv4 addresses in the capsule; zero: none.
#include <anode/capsule.h>

#define RECEIVERS 4

struct fanout {
    be32 receiver[RECEIVERS];
    u8 text[16];
};

AN_INLINE struct an_addr v4(be32 address)
{
    struct an_addr addr;

    an_zero(&addr, sizeof(addr));
    addr.word[2] = an_be32(0xffffu);
    addr.word[3] = address;
    return addr;
}

AN_CAPSULE(fanout, struct fanout)
{
    be32 all[RECEIVERS];
    int port[RECEIVERS];
    struct an_addr next;
    int here = 0, first[RECEIVERS];
    u32 ways = 0;

#pragma clang loop unroll(full)
    for (u32 i = 0; i < RECEIVERS; i++) {
        struct an_addr to = v4(w->payload.receiver[i]);
        all[i] = w->payload.receiver[i];
        port[i] = all[i].network ? an_route(&to, &next) : AN_E_ABSENT;
        here |= port[i] == AN_E_HERE;
    }
#pragma clang loop unroll(full)
    for (u32 i = 0; i < RECEIVERS; i++) {
        first[i] = port[i] >= 0;
        for (u32 j = 0; j < i; j++)
            first[i] &= port[j] != port[i];
        ways += (u32)first[i];
    }
    // Each way gets a share of the bound, and a child with the receivers that are on it.
#pragma clang loop unroll(full)
    for (u32 i = 0; i < RECEIVERS; i++) {
        if (!first[i])
            continue;
        for (u32 j = 0; j < RECEIVERS; j++)
            w->payload.receiver[j].network = port[j] == port[i] ? all[j].network : 0;
        w->destination = v4(all[i]);
        an_send(ctx->bound / (ways + 1));
    }
    return here ? an_deliver() : an_drop();
}
