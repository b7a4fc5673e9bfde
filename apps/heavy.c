// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// heavy: finds the heaviest senders at a node in constant memory. Every node counts the capsules of this code by their
// source; a query brings a node's list home.
//
// DATA goes to its destination and is delivered there, unless its application port is 0; each node
// on the way counts it. QUERY goes to a
// node, takes its 8 heaviest sources along, sorted, and comes back as an ANSWER.
//
// The sketch is Space-Saving (Metwally, Agrawal, El Abbadi, ICDT 2005) in 32 buckets of 2
// counters, a source's bucket chosen by hash: a source without counter takes the smaller one of
// its bucket and inherits its count as `error`. So for each listed source
//     count - error <= capsules it really sent <= count,
// and a source with more than half of its bucket's traffic is always listed. Buckets are soft
// state: they end 60 seconds after the last capsule that hit them.
#include <anode/capsule.h>

#define BUCKETS 32
#define TOP 8
#define TOTAL_KEY 0x746f74616cull
#define KEEP_MS 60000

enum kind { DATA = 1, QUERY = 2, ANSWER = 3 };

struct top {
    struct an_addr source;
    be64 count;
    be64 error;
};

struct heavy {
    u8 kind;
    u8 reserved[3];
    // Chosen by the asker, to match the answer.
    be32 request;
    // All capsules counted by the node that answers.
    be64 total;
    // That node's name.
    struct an_name name;
    // The heaviest first; unused ones are zero.
    struct top top[TOP];
};

// A bucket in soft state.
struct bucket {
    struct an_addr source[2];
    u64 count[2];
    // At most 2^32 - 1: it stays there.
    u32 error[2];
    u64 reserved;
};
_Static_assert(sizeof(struct bucket) == sizeof(struct an_value), "a bucket is one entry");

AN_INLINE u32 clipped(u64 value) { return value > 0xffffffffull ? 0xffffffffu : (u32)value; }

AN_INLINE void count(const struct an_addr *source)
{
    struct bucket bucket;
    // The highest bits depend on all the others.
    u64 hash = an_addr_key(source) * 0x9e3779b97f4a7c15ull;
    u64 key = (hash ^ hash << 32) * 0x9e3779b97f4a7c15ull >> 59;

    an_state_get(key, (struct an_value *)&bucket);
    if (bucket.count[0] && an_addr_equal(&bucket.source[0], source)) {
        bucket.count[0]++;
    } else if (bucket.count[1] && an_addr_equal(&bucket.source[1], source)) {
        bucket.count[1]++;
    } else if (bucket.count[0] < bucket.count[1]) {
        bucket.source[0] = *source;
        bucket.error[0] = clipped(bucket.count[0]);
        bucket.count[0]++;
    } else {
        bucket.source[1] = *source;
        bucket.error[1] = clipped(bucket.count[1]);
        bucket.count[1]++;
    }
    an_state_put(key, (const struct an_value *)&bucket, KEEP_MS);
    an_state_add(TOTAL_KEY, 1, KEEP_MS);
}

// Puts a counter into its place among the heaviest; the lightest falls out. Counts are numbers
// as they lie until the list is complete.
AN_INLINE void place(struct top *top, const struct an_addr *source, u64 count, u64 error)
{
    struct top candidate;

    candidate.source = *source;
    candidate.count.network = count;
    candidate.error.network = error;
    if (count <= top[TOP - 1].count.network)
        return;
#pragma clang loop unroll(full)
    for (u32 i = 0; i < TOP; i++) {
        if (candidate.count.network > top[i].count.network) {
            struct top lighter = top[i];
            top[i] = candidate;
            candidate = lighter;
        }
    }
}

AN_INLINE void answer(struct heavy *h)
{
    struct bucket bucket;

    an_zero(h->top, sizeof(h->top));
    for (u32 i = 0; i < BUCKETS; i++) {
        if (an_state_get(i, (struct an_value *)&bucket) != 0)
            continue;
        place(h->top, &bucket.source[0], bucket.count[0], bucket.error[0]);
        place(h->top, &bucket.source[1], bucket.count[1], bucket.error[1]);
    }
#pragma clang loop unroll(full)
    for (u32 i = 0; i < TOP; i++) {
        h->top[i].count = an_be64(h->top[i].count.network);
        h->top[i].error = an_be64(h->top[i].error.network);
    }
    an_state_get(TOTAL_KEY, (struct an_value *)&bucket);
    h->total = an_be64(((struct an_value *)&bucket)->word[0]);
    an_node_name(&h->name);
}

AN_CAPSULE(heavy, struct heavy)
{
    int here = ctx->flags & AN_HERE;

    if (w->payload.kind == DATA) {
        count(&w->source);
        if (!here)
            return an_forward();
        return ctx->app_port ? an_deliver() : an_drop();
    }
    if (w->payload.kind == QUERY) {
        if (!here)
            return an_forward();
        answer(&w->payload);
        w->payload.kind = ANSWER;
        w->destination = w->source;
        w->source = ctx->here;
        return an_forward();
    }
    if (w->payload.kind == ANSWER)
        return here ? an_deliver() : an_forward();
    return an_drop();
}
