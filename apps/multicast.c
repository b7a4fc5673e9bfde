// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// multicast: one packet from the root of a group to all subscribers, branching in the network.
//
// JOIN travels from a subscriber towards the root. Each node on the way remembers, for the keep
// time the capsule asks for, where it came from: a *branch* of the group. A node that has told its
// upstream lately lets the join end there, so the root hears of one subscriber per neighbour, not
// of all. Subscribers join again before the keep time is over; keep time 0 leaves.
//
// DATA is for the root, which sends a child to each of its branches; these do the same. Each link
// of the tree carries a datum once. The resource bound is split evenly over the branches; the last
// one gets the packet itself instead of a child. A node drops what it has seen already, so a tree
// that is changing shape delivers nothing twice.
//
// State under one group, 64 bytes each: up to 16 branches, the mark "upstream knows", and the
// sequence numbers seen. One application per node can join a group; the latest one has it. Anybody
// may join and send: a group is as private as its number.
#include <anode/capsule.h>

#define BRANCHES 16
// Key of the mark and of the sequence numbers, behind those of the branches.
#define MARK 16
#define SEEN 17
#define SEEN_KEEP_MS 60000

enum kind { JOIN = 1, DATA = 2, JOINED = 3 };
// The subscriber wants to hear where its join ended.
enum flags { CONFIRM = 1 };
// Tags in the node's log, with the group as value: more than 16 branches, and a bound (or a limit
// of children) too small for all of them.
enum tag { TAG_BRANCHES = 1, TAG_BOUND = 2 };

struct multicast {
    u8 kind;
    u8 flags;
    // Links passed by a join.
    be16 hops;
    // For how long branches last, in milliseconds; 0 leaves.
    be32 keep_ms;
    be64 group;
    // The root's address: the destination of joins and data, and part of the group's name.
    struct an_addr root;
    // The node that passed a join on, in case the next one does not know it as a neighbour.
    struct an_addr last;
    // One run of a sender, and the number of the datum in it.
    be32 stream;
    be32 sequence;
    // The data follow, at byte 64.
    u8 reserved[8];
};

// For the kernel's verifier, which goes through a loop once for every number that it knows: a zero that it does not know, to be
// added to what is counted; and the place in a loop, which must stay a number that it knows, and not become part of a key. What a
// comparison tells it of a number, it would remember of each way through the loop: a number apart is compared in its place.
#define UNKNOWN_ZERO(ctx) ((ctx)->reserved[0])
#define KNOWN(i) __asm__("" : "+r"(i))
#define APART(n) __asm__("" : "+r"(n))

// A branch in soft state: half[0..3] the neighbour, zero for this node's own subscriber;
// half[4] the subscriber's application port, 0 for a neighbour.
#define PORT 4

struct multicast_window;
AN_INLINE int join(const struct an_context *ctx, struct multicast_window *w);
AN_INLINE int data(const struct an_context *ctx, struct multicast_window *w);

AN_CAPSULE(multicast, struct multicast)
{
    if (w->payload.kind == JOIN)
        return join(ctx, w);
    if (!(ctx->flags & AN_HERE))
        return an_forward();
    if (w->payload.kind == DATA)
        return data(ctx, w);
    return w->payload.kind == JOINED ? an_deliver() : an_drop();
}

AN_INLINE u64 group_key(const struct multicast *m)
{
    u64 key = (an_addr_key(&m->root) ^ m->group.network) * 0x9e3779b97f4a7c15ull;
    return (key ^ key >> 32) & ~31ull;
}

// The join ends here: word to the subscriber if it wants that.
AN_INLINE int join_ends(const struct an_context *ctx, struct multicast_window *w)
{
    if (!(w->payload.flags & CONFIRM))
        return an_drop();
    w->payload.kind = JOINED;
    w->destination = w->source;
    w->source = ctx->here;
    return an_forward();
}

AN_INLINE int join(const struct an_context *ctx, struct multicast_window *w)
{
    struct an_value branch, put;
    u64 key = group_key(&w->payload);
    u32 keep = an_be32(w->payload.keep_ms), zero = UNKNOWN_ZERO(ctx);
    u32 place = BRANCHES + zero, free = BRANCHES + zero, others = zero;

    an_zero(&put, sizeof(put));
    if (ctx->flags & AN_INJECTED) {
        put.half[PORT] = ctx->app_port;
    } else {
        struct an_addr from;
        if (an_neighbour(ctx->from, &from) != 0)
            from = w->payload.last;
        for (u32 i = 0; i < 4; i++)
            put.half[i] = from.half[i];
    }
    for (u32 i = 0; i < BRANCHES; i++) {
        KNOWN(i);
        if (an_state_get(key + i, &branch) != 0) {
            if (free == BRANCHES)
                free = i + zero;
        } else if (an_equal(&branch, &put, 16)) {
            place = i + zero;
        } else {
            others++;
        }
    }
    if (place == BRANCHES)
        place = free;
    if (place == BRANCHES || (an_state_put(key + place, &put, keep) != 0 && keep != 0)) {
        an_log(TAG_BRANCHES, an_be64(w->payload.group));
        return an_drop();
    }
    if (ctx->flags & AN_HERE)
        return join_ends(ctx, w);

    if (keep == 0) {
        // A leave goes on only if nobody else is behind this node.
        if (others)
            return join_ends(ctx, w);
        an_state_put(key + MARK, &put, 0);
    } else {
        if (an_state_get(key + MARK, &branch) == 0)
            return join_ends(ctx, w);
        an_state_put(key + MARK, &put, keep / 4);
    }
    w->payload.last = ctx->here;
    w->payload.hops = an_be16(an_be16(w->payload.hops) + 1);
    return an_forward();
}

// 1 if this datum was here before, as far back as 64 numbers.
AN_INLINE int seen_before(const struct multicast *m, u64 key)
{
    struct an_value seen;
    u32 sequence = an_be32(m->sequence);

    if (an_state_get(key + SEEN, &seen) != 0 || seen.half[0] != m->stream.network) {
        an_zero(&seen, sizeof(seen));
        seen.half[0] = m->stream.network;
        seen.half[1] = sequence;
        seen.word[1] = 1;
    } else {
        s32 ahead = (s32)(sequence - seen.half[1]);
        if (ahead > 0) {
            seen.word[1] = ahead < 64 ? seen.word[1] << ahead | 1 : 1;
            seen.half[1] = sequence;
        } else if (ahead > -64) {
            u64 bit = 1ull << -ahead;
            if (seen.word[1] & bit)
                return 1;
            seen.word[1] |= bit;
        } else {
            return 1;
        }
    }
    an_state_put(key + SEEN, &seen, SEEN_KEEP_MS);
    return 0;
}

AN_INLINE int data(const struct an_context *ctx, struct multicast_window *w)
{
    struct an_value branch;
    u64 key = group_key(&w->payload);
    u32 zero = UNKNOWN_ZERO(ctx), count = zero, port = zero, last = zero - 1;

    if (seen_before(&w->payload, key))
        return an_drop();
    for (u32 i = 0; i < BRANCHES; i++) {
        KNOWN(i);
        if (an_state_get(key + i, &branch) != 0)
            continue;
        if (branch.half[PORT])
            port = branch.half[PORT];
        else {
            count++;
            last = i + zero;
        }
    }
    u32 share = count ? ctx->bound / count : 0;
    if (share == 0)
        share = 1;
    for (u32 i = 0; i < BRANCHES; i++) {
        // Places up to that of the last branch.
        s32 more = (s32)(last - i);
        KNOWN(i);
        APART(more);
        if (more < 0)
            break;
        if (an_state_get(key + i, &branch) != 0 || branch.half[PORT])
            continue;
        for (u32 k = 0; k < 4; k++)
            w->destination.half[k] = branch.half[k];
        if (more == 0 && !port)
            return an_forward();
        if (an_send(share) != 0)
            an_log(TAG_BOUND, an_be64(w->payload.group));
    }
    w->destination = ctx->here;
    return port ? an_deliver_to((u16)port) : an_drop();
}
