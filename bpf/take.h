/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The node's frames at an interface, for programs over socket buffers: the guard before the Linux stack and the filter
 * of the AF_PACKET socket. Both must agree on every frame. A frame is the node's if it is untagged, for this host, and
 * IP protocol 107 or UDP to port 3322 (sockets.h has the same for XDP). Packets of incoming channels are the node's
 * too. Behind an XDP program of the node only these come here.
 *
 * Filters of the same shape (the same fields matter) are in one hash map. It is the look-up of src/classify/shapes.rs
 * with a shorter answer: whether there is a channel, not which. Of more shapes than there are masks those are looked for that lists name.
 *
 * Frames are read through a helper, since any part behind the Ethernet header may lie in pages of its own.
 */
#ifndef ANODE_TAKE_H
#define ANODE_TAKE_H

#include "filters.h"
#include "wire.h"

/* The part of struct __sk_buff (linux/bpf.h) up to what is needed here. */
struct sk_buff {
    u32 len, pkt_type, mark, queue_mapping, protocol, vlan_present;
};

/* BPF_FUNC_skb_load_bytes: copies bytes of a frame, wherever they lie; not 0 if it is too short. */
static long (*const load)(const struct sk_buff *skb, u32 offset, void *to, u32 length) = (void *)26;

enum { OTHER_HOST = 3, ETHERNET = sizeof(struct ethernet), HEAD = 24 };
MAP(shapes_map);
MAP(flows_map);
MAP(lists_map);
MAP(candidates_map);

/* The fields of a frame, and where the payload of each layer begins; 0: it has none. */
struct fields {
    struct pattern flow;
    u32 ip_payload, payload;
    u16 type;
    u8 protocol, is_anep;
};

INLINE void read_transport(const struct sk_buff *skb, u32 at, struct fields *it, int right)
{
    u16 head[7];

    if (it->protocol == UDP && load(skb, at, head, 8) == 0)
        it->payload = at + 8;
    else if (it->protocol == TCP && load(skb, at, head, 14) == 0)
        it->payload = at + (((u8 *)head)[12] >> 4) * 4;
    else
        return;
    it->flow.source_port = head[0];
    it->flow.destination_port = head[1];
    it->is_anep |= right && it->protocol == UDP && head[1] == be16(PORT);
}

/* The fields of a frame; not 0 if it is none of ours whatever channels there are. */
INLINE int read(const struct sk_buff *skb, struct fields *it)
{
    u16 head[HEAD / 2];
    const u8 *ip = (const u8 *)head + ETHERNET;

    if (skb->vlan_present || skb->pkt_type == OTHER_HOST || load(skb, 0, head, HEAD))
        return -1;
    /* What programs of the node's pass up has a socket of its own. */
    if (head[6] == be16(PASSED_UP))
        return -1;
    it->type = head[6];
    if (head[6] == be16(IPV4)) {
        u32 words[2];
        it->protocol = ip[9];
        it->ip_payload = ETHERNET + (ip[0] & 15) * 4;
        if (load(skb, ETHERNET + 12, words, 8))
            return 0;
        it->flow.source[1] = 0xffff0000 | (u64)words[0] << 32;
        it->flow.destination[1] = 0xffff0000 | (u64)words[1] << 32;
        /* Fragments are no capsules, and have no ports. */
        if (head[10] & be16(0x3fff))
            return 0;
        it->is_anep = ip[9] == ANEP && (ip[0] >> 4) == 4;
        read_transport(skb, it->ip_payload, it, (ip[0] >> 4) == 4);
    } else if (head[6] == be16(IPV6)) {
        it->protocol = ip[6];
        it->ip_payload = ETHERNET + 40;
        if (load(skb, ETHERNET + 8, it->flow.source, 32))
            return 0;
        it->is_anep = ip[6] == ANEP && (ip[0] >> 4) == 6;
        read_transport(skb, it->ip_payload, it, (ip[0] >> 4) == 6);
    }
    return 0;
}

/* Whether one of the keys holds for a payload; if `taken` is all ones, of those alone whose packets the stack has not too. There is one way
 * through each round: the kernel's verifier looks at every one, and at the product of those of loops within loops. */
INLINE int holds(const struct sk_buff *skb, u32 payload, const struct owners *keys, u32 taken)
{
#pragma clang loop unroll(disable)
    for (u32 i = 0; i < KEYS; i++) {
        u64 differs;

        if (i >= keys->count)
            break;
        differs = keys->keys[i].cut & taken;
#pragma clang loop unroll(disable)
        for (u32 j = 0; j < TUPLES; j++) {
            const struct tuple *tuple = &keys->keys[i].tuples[j];
            u64 bytes = 0;

            if (j >= keys->keys[i].count)
                break;
            /* A length of none but 1 to 8 is nobody's (filters.rs). What cannot be read differs. */
            differs |= (u64)load(skb, payload + tuple->offset, &bytes, ((tuple->length - 1) & 7) + 1);
            differs |= (bytes & tuple->mask) ^ tuple->value;
        }
        if (!differs)
            return 1;
    }
    return keys->more && !taken;
}

/* The masks that hold now. */
INLINE const struct shapes *shapes_now(void)
{
    u32 at = 0;
    const struct shapes *first = map_lookup(shapes_map, &at);

    if (!first)
        return 0;
    at = *(const volatile u32 *)&first->now;
    return map_lookup(shapes_map, &at);
}

/* Whether the node takes what is its own. */
INLINE int is_listening(void)
{
    const struct shapes *shapes = shapes_now();

    return shapes && shapes->listens;
}

/* Frames of channels that a program asks for: all that the node looks at, or those alone that the stack has not too. */
#define WATCHED 0u
#define TAKEN ~0u

/* What a mask leaves of a frame, and where its layer's payload begins; 0 if it has not that layer. */
INLINE int look_through(const struct fields *it, const struct pattern *mask, struct pattern *flow, u32 *payload)
{
    *payload = 0;
    flow->layer = mask->layer;
    flow->shape = mask->shape;
    flow->port = 0;
    flow->kind = it->type & mask->kind;
    if (flow->layer != ON_LINK) {
        *payload = flow->layer == ON_IP ? it->ip_payload : it->payload;
        if (!*payload)
            return 0;
        flow->kind = be16(it->protocol) & mask->kind;
    }
    flow->source[0] = it->flow.source[0] & mask->source[0];
    flow->source[1] = it->flow.source[1] & mask->source[1];
    flow->destination[0] = it->flow.destination[0] & mask->destination[0];
    flow->destination[1] = it->flow.destination[1] & mask->destination[1];
    flow->source_port = it->flow.source_port & mask->source_port;
    flow->destination_port = it->flow.destination_port & mask->destination_port;
    return 1;
}

/* The filters of a shape that a frame may be of; 0: there are none. */
INLINE const struct owners *find_keys(const struct fields *it, u32 shape, u32 *payload)
{
    struct pattern mask, flow;

    mask_of(shape, &mask);
    return look_through(it, &mask, &flow, payload) ? map_lookup(flows_map, &flow) : 0;
}

/* Whether a frame is a channel's by one of the candidates. What these do not say is watched for, and the stack has it too. */
INLINE int is_of_candidates(const struct sk_buff *skb, const struct fields *it, u32 taken, struct candidates *among)
{
    const struct owners *keys;
    u32 payload;

#pragma clang loop unroll(disable)
    for (u32 i = 0; i < CANDIDATES; i++) {
        if (i >= among->count)
            break;
        keys = find_keys(it, among->shapes[i], &payload);
        if (keys && keys->keys[0].count)
            add_keyed(among, among->shapes[i]);
        else if (keys && !(keys->keys[0].cut & taken))
            return 1;
    }
#pragma clang loop unroll(disable)
    for (u32 i = 0; i < KEYED; i++) {
        if (i >= among->keyed)
            break;
        keys = find_keys(it, among->keyed_shapes[i], &payload);
        if (keys && holds(skb, payload, keys, taken))
            return 1;
    }
    return among->more && !taken;
}

/* Whether a frame is a channel's. */
INLINE int is_channel(const struct sk_buff *skb, const struct fields *it, u32 taken)
{
    u32 zero = 0;
    const struct shapes *shapes = shapes_now();
    struct candidates *among = map_lookup(candidates_map, &zero);

    if (!shapes || !shapes->count || !among)
        return 0;
    among->count = among->more = among->keyed = 0;
#pragma clang loop unroll(disable)
    for (u32 i = 0; i < SHAPES; i++) {
        struct pattern flow;
        const struct owners *keys;
        const struct listed *list;
        u32 payload;

        if (i >= shapes->count)
            break;
        if (!look_through(it, &shapes->masks[i], &flow, &payload))
            continue;
        if (shapes->merged >> i & 1) {
            list = map_lookup(lists_map, &flow);
            if (list)
                add_listed(among, list);
            continue;
        }
        keys = map_lookup(flows_map, &flow);
        if (keys && holds(skb, payload, keys, taken))
            return 1;
    }
    return is_of_candidates(skb, it, taken, among);
}

#endif
