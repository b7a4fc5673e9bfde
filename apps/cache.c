// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// cache: a table of values of at most 64 bytes at an origin, with copies in the nodes on the way.
//
// GET travels towards the origin; the first node that holds a copy turns it into a VALUE, else the
// origin's application answers with one. A VALUE leaves a copy in every node on its way back, for
// the time the origin allows: that is how old an answer can be. PUT goes to the origin and removes
// the copies it meets. ABSENT (no such key) and STORED (a PUT was taken) are the origin's other
// answers; they leave nothing.
//
// A key is 16 bytes, the beginning of the SHA-256 of the key's text, and belongs to one origin. A
// copy takes two entries of soft state: one that describes it, one that holds it. A node takes a
// copy only of what comes in by the link on which it would itself look for the origin, so nobody
// behind another link can plant one; who sits between a node and the origin can. Do not keep in
// it what has to be proven.
#include <anode/capsule.h>

enum kind { GET = 1, PUT = 2, VALUE = 3, ABSENT = 4, STORED = 5 };
// FRESH passes the copies by: neither reads nor leaves any. COPY marks a VALUE from a copy.
enum flags { FRESH = 1, COPY = 2 };

struct cache {
    u8 kind;
    u8 flags;
    // Bytes of the value, 0 to 64.
    u8 length;
    // Links passed on the way to whoever answered.
    u8 hops;
    // Chosen by the asker, to match the answer.
    be32 request;
    // Counted by the origin with each PUT of a key.
    be32 version;
    // How long copies last, in milliseconds.
    be32 keep_ms;
    // The application port of the origin; the asker's own is in the capsule header.
    be16 origin_port;
    u8 reserved[6];
    u64 key[2];
    struct an_addr origin;
    u64 value[8];
};

// What describes a copy, in soft state. The copy itself is under the same key with all bits turned.
struct copy {
    u64 key[2];
    struct an_addr origin;
    u32 length;
    u32 version;
    // The node's clock when it ends, in nanoseconds.
    u64 until;
    u64 reserved[2];
};
_Static_assert(sizeof(struct copy) == sizeof(struct an_value), "a copy is described by one entry");

struct cache_window;
AN_INLINE int answered(const struct an_context *ctx, struct cache_window *w);
AN_INLINE void keep_copy(const struct an_context *ctx, const struct cache *c);
AN_INLINE void forget_copy(const struct cache *c);

AN_CAPSULE(cache, struct cache)
{
    struct cache *c = &w->payload;
    int here = ctx->flags & AN_HERE, fresh = c->flags & FRESH;

    if (c->kind == GET && !fresh && answered(ctx, w))
        return an_forward();
    if (c->kind == PUT)
        forget_copy(c);
    if (c->kind == GET || c->kind == PUT) {
        if (here)
            return an_deliver_to(an_be16(c->origin_port));
        if (c->hops < 255)
            c->hops++;
        return an_forward();
    }
    if (c->kind == VALUE && !fresh)
        keep_copy(ctx, c);
    if (c->kind == VALUE || c->kind == ABSENT || c->kind == STORED)
        return here ? an_deliver() : an_forward();
    return an_drop();
}

AN_INLINE u64 state_key(const struct cache *c) { return c->key[0] ^ an_addr_key(&c->origin); }

AN_INLINE int is_of(const struct copy *copy, const struct cache *c)
{
    return copy->key[0] == c->key[0] && copy->key[1] == c->key[1] && an_addr_equal(&copy->origin, &c->origin);
}

// Turns a GET into the VALUE that this node holds. 1 if it does.
AN_INLINE int answered(const struct an_context *ctx, struct cache_window *w)
{
    struct cache *c = &w->payload;
    struct copy copy;
    u64 at = state_key(c), now = an_now();

    if (an_state_get(at, (struct an_value *)&copy) != 0 || !is_of(&copy, c) || copy.until <= now)
        return 0;
    if (an_state_get(~at, (struct an_value *)c->value) != 0)
        return 0;
    c->kind = VALUE;
    c->flags |= COPY;
    c->length = (u8)copy.length;
    c->version = an_be32(copy.version);
    // The copies it leaves on its way end when this one does.
    c->keep_ms = an_be32((u32)((copy.until - now) / 1000000));
    w->destination = w->source;
    w->source = ctx->here;
    return 1;
}

// Keeps a copy of a VALUE, unless a newer one is here or it came from the wrong side.
AN_INLINE void keep_copy(const struct an_context *ctx, const struct cache *c)
{
    struct copy copy;
    struct an_addr next;
    u64 at = state_key(c);
    u32 keep = an_be32(c->keep_ms), version = an_be32(c->version);
    int port = an_route(&c->origin, &next);

    // At the origin's own node the VALUE is injected, and only there.
    if (port == AN_E_HERE ? !(ctx->flags & AN_INJECTED) : (u32)port != ctx->in_port)
        return;
    if (keep == 0 || c->length > 64)
        return;
    if (an_state_get(at, (struct an_value *)&copy) == 0 && is_of(&copy, c) && (s32)(copy.version - version) > 0)
        return;
    an_zero(&copy, sizeof(copy));
    copy.key[0] = c->key[0];
    copy.key[1] = c->key[1];
    copy.origin = c->origin;
    copy.length = c->length;
    copy.version = version;
    copy.until = an_now() + (u64)keep * 1000000;
    if (an_state_put(~at, (const struct an_value *)c->value, keep) == 0)
        an_state_put(at, (const struct an_value *)&copy, keep);
}

AN_INLINE void forget_copy(const struct cache *c)
{
    struct an_value nothing;

    if (an_state_get(state_key(c), &nothing) == 0)
        an_state_put(state_key(c), &nothing, 0);
}
