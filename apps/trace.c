// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// trace: writes down every node it passes, to its destination and back: address, name, the node's
// clock, and how busy the link is by which it leaves.
//
// Clocks of different nodes cannot be compared, two readings of one node can. So on the way back
// each record says which record the same node wrote on the way there (it finds that in its soft
// state): the difference is the time from there to the destination and back. The host side
// (src/apps/trace.rs) subtracts it from the whole round trip and has the round trip to every node.
//
// Capacity: the payload is 16 bytes and 48 for each record; the sender chooses its length. 24
// records (12 hops each way) make a payload of 1168 bytes, 27 are the most in a packet of 1500
// bytes over IPv6. When the records are full the capsule travels on and says so.
//
// If the sender asks for reports, each node on the way there also sends a child back with the
// records so far: when the path breaks, the sender sees where.
#include <anode/capsule.h>

#define HEADER 16
#define RECORD 48
// How long a node remembers that it was passed.
#define KEEP_MS 10000

enum phase { THERE = 0, BACK = 1, REPORT = 2 };
enum flags { FULL = 1 };

struct trace {
    // Chosen by the sender for one run.
    be32 token;
    // enum phase.
    u8 phase;
    // Records written.
    u8 count;
    // enum flags.
    u8 flags;
    // Records written on the way there, once it has turned.
    u8 there;
    // Resource bound that each report may spend on its way back at most; 0: no reports.
    be32 report_bound;
    be32 sequence;
};

// A record, in network byte order:
//  0 address 16 | 16 name 16 | 32 clock in ns 64 bit | 40 bytes queued 32 bit | 44 load in 1/1000 16 bit
// 46 record of the same node on the way there + 1, 0 for none, 8 bit | 47 zero

AN_INLINE u64 pair(u32 high, u32 low) { return (u64)__builtin_bswap32(high) << 32 | __builtin_bswap32(low); }

AN_INLINE u64 run(const struct trace *payload)
{
    return pair(payload->token.network, payload->sequence.network);
}

// Writes the record of this node; `twin` as in its last field.
AN_INLINE void record(const struct an_context *ctx, struct trace *payload, const struct an_addr *to, u32 twin)
{
    struct an_name name;
    struct an_addr next;
    u32 at = HEADER + payload->count * RECORD, queue = AN_NONE, load = AN_NONE;

    if (payload->count == 255 || at + RECORD > ctx->payload_length) {
        payload->flags |= FULL;
        return;
    }
    int port = an_route(to, &next);
    if (port >= 0) {
        queue = an_link_queue((u32)port);
        load = an_link_load((u32)port);
    }
    an_node_name(&name);
    an_store(at, pair(ctx->here.half[0], ctx->here.half[1]), 8);
    an_store(at + 8, pair(ctx->here.half[2], ctx->here.half[3]), 8);
    an_store(at + 16, pair(name.word[0], name.word[1]), 8);
    an_store(at + 24, pair(name.word[2], name.word[3]), 8);
    an_store(at + 32, an_now(), 8);
    an_store(at + 40, queue, 4);
    an_store(at + 44, load, 2);
    an_store(at + 46, twin << 8, 2);
    payload->count++;
}

AN_CAPSULE(trace, struct trace)
{
    struct an_value seen;
    int here = ctx->flags & AN_HERE;

    if (w->payload.phase == REPORT)
        return here ? an_deliver() : an_forward();

    if (w->payload.phase == BACK) {
        u64 key = an_addr_key(&w->destination) ^ run(&w->payload);
        u32 twin = an_state_get(key, &seen) == 0 ? seen.half[0] : 0;
        record(ctx, &w->payload, &w->destination, twin);
        return here ? an_deliver() : an_forward();
    }

    if (w->payload.phase != THERE)
        return an_drop();
    record(ctx, &w->payload, here ? &w->source : &w->destination, 0);
    if (here) {
        w->payload.phase = BACK;
        w->payload.there = w->payload.count;
        w->destination = w->source;
        w->source = ctx->here;
        return an_forward();
    }
    an_zero(&seen, sizeof(seen));
    seen.half[0] = w->payload.count;
    an_state_put(an_addr_key(&w->source) ^ run(&w->payload), &seen, KEEP_MS);

    if (w->payload.report_bound.network && !(ctx->flags & AN_INJECTED)) {
        struct an_addr source = w->source, destination = w->destination;
        w->payload.phase = REPORT;
        w->destination = source;
        w->source = ctx->here;
        // Without enough bound there is no report; the trace itself goes on.
        // A report goes back the way there: as far as there are records, and a bit more.
        u32 most = w->payload.count + 4u, asked = an_be32(w->payload.report_bound);
        an_send(asked < most ? asked : most);
        w->payload.phase = THERE;
        w->destination = destination;
        w->source = source;
    }
    return an_forward();
}
