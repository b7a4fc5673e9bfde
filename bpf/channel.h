/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Demultiplexing in XDP: from a frame to its incoming channel, most specific filter first. It is the look-up of
 * src/classify/shapes.rs. Filters of one shape (the same fields matter) are in one hash map, all ports together. Of more shapes than
 * there are masks those are looked for that lists name.
 *
 * Fields are read as bpf/take.h reads them. So both ways into the node agree whether a frame is a channel's.
 */
#ifndef ANODE_CHANNEL_H
#define ANODE_CHANNEL_H

#include "filters.h"
#include "plain.h"

/* BPF_FUNC_xdp_load_bytes: copies bytes of a frame, in whichever of its buffers they lie; not 0 if it is too short. */
static long (*const load)(struct xdp *ctx, u32 offset, void *to, u32 length) = (void *)189;

/* Map `channels`, one entry: what has been found out under another generation is found out again. */
struct channels {
    u64 generation;
};

MAP(shapes_map);
MAP(owners_map);
MAP(lists_map);
extern struct channels channels_value;

/* The fields of a frame, and where the payload of each layer begins; 0: it has none. */
struct fields {
    struct pattern pattern;
    u32 ip_payload, payload;
    u16 type;
    u8 protocol;
};

/* What the look-up has found. */
struct found {
    /* Whether it is a channel's; the cut-through channel, or 0; whether a key has been looked at. */
    u32 is_channel, cut, by_key;
    /* The number of the filter's shape. */
    u32 shape;
};

INLINE void read_transport(struct xdp *ctx, u32 at, struct fields *it)
{
    u16 head[7];

    if (it->protocol == UDP && load(ctx, at, head, 8) == 0)
        it->payload = at + 8;
    else if (it->protocol == TCP && load(ctx, at, head, 14) == 0)
        it->payload = at + (u32)(((const u8 *)head)[12] >> 4) * 4;
    else
        return;
    it->pattern.source_port = head[0];
    it->pattern.destination_port = head[1];
}

/* Reads the fields of a frame; 0 if none of them can be a channel's here: tagged frames, what both the stack and the node must see, and
 * packets of the node's own. */
INLINE int read_fields(struct xdp *ctx, struct fields *it)
{
    const u8 *data = packet(ctx);
    const struct ethernet *ethernet = (const void *)data;
    u16 head[10];

    if (data + 24 > packet_end(ctx))
        return 0;
    it->type = ethernet->type;
    if (it->type == be16(ARP) || it->type == be16(VLAN) || it->type == be16(SERVICE_VLAN))
        return 0;
    if (it->type == be16(IPV4)) {
        if (load(ctx, sizeof(*ethernet), head, 20))
            return 1;
        it->protocol = ((const u8 *)head)[9];
        it->ip_payload = (u32)sizeof(*ethernet) + (((const u8 *)head)[0] & 15) * 4;
        it->pattern.source[1] = mapped(*(const u32 *)(head + 6));
        it->pattern.destination[1] = mapped(*(const u32 *)(head + 8));
        /* Fragments have no ports, and are nobody's capsules. */
        if (head[3] & be16(0x3fff))
            return 1;
        read_transport(ctx, it->ip_payload, it);
    } else if (it->type == be16(IPV6)) {
        it->protocol = data[sizeof(*ethernet) + 6];
        it->ip_payload = sizeof(*ethernet) + sizeof(struct ipv6);
        if (it->protocol == ICMPV6 || load(ctx, sizeof(*ethernet) + 8, it->pattern.source, 32))
            return 0;
        read_transport(ctx, it->ip_payload, it);
    }
    return it->protocol != ANEP && !(it->protocol == UDP && it->pattern.destination_port == be16(PORT));
}

/* Which of the keys holds for a payload, the longest first. */
INLINE int holds(struct xdp *ctx, u32 payload, const struct owners *owners, struct found *found)
{
#pragma clang loop unroll(disable)
    for (u32 i = 0; i < KEYS; i++) {
        u64 differs = 0;

        if (i >= owners->count)
            break;
#pragma clang loop unroll(disable)
        for (u32 j = 0; j < TUPLES; j++) {
            const struct tuple *tuple = &owners->keys[i].tuples[j];
            u64 bytes = 0;
            u32 length = tuple->length;

            if (j >= owners->keys[i].count)
                break;
            found->by_key = 1;
            if (length < 1 || length > 8 || load(ctx, payload + tuple->offset, &bytes, length))
                differs = 1;
            differs |= (bytes & tuple->mask) ^ tuple->value;
        }
        if (!differs) {
            found->is_channel = 1;
            found->cut = owners->keys[i].cut;
            return 1;
        }
    }
    return 0;
}

/* The masks that hold now. */
INLINE const struct shapes *shapes_now(void)
{
    const struct shapes *first = map_lookup(shapes_map, zero_value);
    u32 at;

    if (!first)
        return 0;
    at = *(const volatile u32 *)&first->now;
    return map_lookup(shapes_map, &at);
}

/* What a mask leaves of a frame, and where its layer's payload begins; 0 if it has not that layer. */
INLINE int look_through(const struct fields *it, u32 port, const struct pattern *mask, struct pattern *key, u32 *payload)
{
    u32 layer = mask->layer;

    *payload = 0;
    key->layer = (u16)layer;
    key->kind = it->type & mask->kind;
    key->port = port & mask->port;
    key->shape = mask->shape;
    if (layer != ON_LINK) {
        *payload = layer == ON_IP ? it->ip_payload : it->payload;
        if (!*payload)
            return 0;
        key->kind = be16(it->protocol) & mask->kind;
    }
    key->source[0] = it->pattern.source[0] & mask->source[0];
    key->source[1] = it->pattern.source[1] & mask->source[1];
    key->destination[0] = it->pattern.destination[0] & mask->destination[0];
    key->destination[1] = it->pattern.destination[1] & mask->destination[1];
    key->source_port = it->pattern.source_port & mask->source_port;
    key->destination_port = it->pattern.destination_port & mask->destination_port;
    return 1;
}

/* The filters of a shape that a frame may be of, unless a more specific one has it already; 0: there are none. */
INLINE const struct owners *find_owners(const struct fields *it, u32 port, u32 shape, struct pattern *key, const struct found *found,
                                        u32 *payload)
{
    struct pattern mask;

    if (found->is_channel && shape <= found->shape)
        return 0;
    mask_of(shape, &mask);
    return look_through(it, port, &mask, key, payload) ? map_lookup(owners_map, key) : 0;
}

/* Looks for a more specific filter among the candidates. Where one may be that has no room there, the user half decides if the frame is
 * a channel's in any case; else the Linux stack has it, and the user half a copy (take.h). */
INLINE void find_candidate(struct xdp *ctx, const struct fields *it, u32 port, struct pattern *key, struct candidates *among,
                           struct found *found)
{
    const struct owners *owners;
    u32 payload;

#pragma clang loop unroll(disable)
    for (u32 i = 0; i < CANDIDATES; i++) {
        u32 shape;

        if (i >= among->count)
            break;
        shape = among->shapes[i];
        owners = find_owners(it, port, shape, key, found, &payload);
        if (owners && owners->keys[0].count) {
            add_keyed(among, shape);
        } else if (owners) {
            found->is_channel = 1;
            found->cut = owners->keys[0].cut;
            found->shape = shape;
        }
    }
#pragma clang loop unroll(disable)
    for (u32 i = 0; i < KEYED; i++) {
        u32 shape;

        if (i >= among->keyed)
            break;
        shape = among->keyed_shapes[i];
        owners = find_owners(it, port, shape, key, found, &payload);
        if (owners && holds(ctx, payload, owners, found))
            found->shape = shape;
        else if (owners && owners->more)
            doubt(among, shape);
    }
    if (found->is_channel && among->more > found->shape + 1)
        found->cut = 0;
}

/* Whose a frame is that has come by a port. `it`, `key`, `among` and `found` are memory of which the verifier knows nothing, so that it
 * follows the loops but once. */
INLINE void find_channel(struct xdp *ctx, const struct fields *it, u32 port, struct pattern *key, struct candidates *among,
                         struct found *found)
{
    const struct shapes *shapes = shapes_now();

    if (!shapes)
        return;
    among->count = among->more = among->keyed = 0;
#pragma clang loop unroll(disable)
    for (u32 i = 0; i < SHAPES; i++) {
        const struct pattern *mask = &shapes->masks[i];
        const struct owners *owners;
        const struct listed *list;
        u32 payload;

        if (i >= shapes->count)
            break;
        if (!look_through(it, port, mask, key, &payload))
            continue;
        if (shapes->merged >> i & 1) {
            list = map_lookup(lists_map, key);
            if (list)
                add_listed(among, list);
            continue;
        }
        /* Of these the first is the most specific one. */
        if (found->is_channel)
            continue;
        owners = map_lookup(owners_map, key);
        if (owners && holds(ctx, payload, owners, found)) {
            if (!shapes->merged && !among->more)
                return;
            found->shape = mask->shape;
        } else if (owners && owners->more) {
            doubt(among, mask->shape);
        }
    }
    find_candidate(ctx, it, port, key, among, found);
}

/* The generation in a register, so that no offset is put into the value's address. */
INLINE u32 channels_now(void)
{
    const struct channels *value = &channels_value;
    asm volatile("" : "+r"(value));
    return (u32) * (const volatile u64 *)&value->generation;
}

#endif
