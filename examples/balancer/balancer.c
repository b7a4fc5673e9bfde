// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// balancer: a node that spreads flows over servers. Servers join by a capsule, and stay for a minute. Requests go to the balancer and
// from there to a server, a flow always to the same one while it is there. The answer comes from the server itself.
#include <anode/capsule.h>

#define SERVERS 4
#define KEEP_MS 60000

enum kind { REQUEST = 0, JOIN = 1, JOINED = 2, CHOSEN = 3, ANSWER = 4 };

struct balancer {
    be32 kind;
    be32 flow;
};

AN_CAPSULE(balancer, struct balancer)
{
    struct an_value server;
    u32 kind = an_be32(w->payload.kind);

    if (!(ctx->flags & AN_HERE))
        return an_forward();
    if (kind == JOINED || kind == ANSWER)
        return an_deliver();

    if (kind == REQUEST) {
        // A hash of the flow says where to begin; who is not there is passed over.
        u32 at = an_be32(w->payload.flow) * 2654435761u >> 30;
#pragma clang loop unroll(full)
        for (u32 i = 0; i < SERVERS; i++) {
            if (an_state_get((at + i) % SERVERS, &server) == 0) {
                an_copy(&w->destination, &server.word[1], sizeof(w->destination));
                w->payload.kind = an_be32((u32)CHOSEN);
                return an_forward();
            }
        }
        return an_drop();
    }
    if (kind == JOIN) {
        // Joins again in its own place, or in the first one that is free.
        int joined = 0;
#pragma clang loop unroll(full)
        for (u32 i = 0; i < SERVERS; i++) {
            int free = an_state_get(i, &server) != 0;
            if (!joined && (free || an_equal(&server.word[1], &w->source, sizeof(w->source)))) {
                server.word[0] = 1;
                an_copy(&server.word[1], &w->source, sizeof(w->source));
                joined = an_state_put(i, &server, KEEP_MS) == 0;
            }
        }
        if (!joined)
            return an_drop();
    }
    // At the balancer for a server, or at a server for a client.
    w->payload.kind = an_be32(kind == JOIN ? (u32)JOINED : (u32)ANSWER);
    w->destination = w->source;
    w->source = ctx->here;
    return an_forward();
}
