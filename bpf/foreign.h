/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Flows of which the user half has found out that no rule over taught protocols can hold. Their packets are Linux's, and
 * the node gets no copy of them. Example: of all UDP, which a rule over a range of ports watches, that to port 53.
 *
 *     frame ─▶ filters ─ nobody's ─▶ Linux     some channel's, perhaps ─▶ foreign? ─ no ─▶ the node
 *                                                                             └ yes ─▶ Linux
 *
 * A packet is looked for if there is nothing unusual in it: then rules read the same of each packet of its flow, but for
 * bytes that no flow is written down for (src/classify/foreign.rs, which reads packets in the same way). Fragments, packets
 * with options and damaged ones go up as ever.
 */
#ifndef ANODE_FOREIGN_H
#define ANODE_FOREIGN_H

#include "take.h"
#include "plain.h"

MAP(foreign_map);
MAP(foreign_now_map);
MAP(foreign_count_map);

/* Reads the ports of a segment of so many bytes; 0 if it says another length of itself. */
INLINE int read_segment(const struct sk_buff *skb, u32 at, u32 length, struct foreign_flow *flow)
{
    u16 head[7];

    if (flow->protocol == UDP) {
        if (length < 8 || load(skb, at, head, 8) || be16(head[2]) != length)
            return 0;
    } else if (flow->protocol == TCP) {
        if (length < 20 || load(skb, at, head, 14))
            return 0;
        u32 header = (u32)(((const u8 *)head)[12] >> 4) * 4;
        if (header < 20 || header > length)
            return 0;
    } else {
        return 1;
    }
    flow->source_port = head[0];
    flow->destination_port = head[1];
    return 1;
}

INLINE int read_flow4(const struct sk_buff *skb, struct foreign_flow *flow)
{
    struct ipv4 ip;

    if (load(skb, ETHERNET, &ip, sizeof(ip)) || ip.version != 0x45 || (ip.fragment & be16(0x3fff)) || !is_summed(&ip))
        return 0;
    u32 length = be16(ip.length);
    if (length < sizeof(ip) || ETHERNET + length > skb->len)
        return 0;
    flow->source[1] = mapped(ip.source);
    flow->destination[1] = mapped(ip.destination);
    flow->protocol = ip.protocol;
    return read_segment(skb, ETHERNET + sizeof(ip), length - (u32)sizeof(ip), flow);
}

INLINE int read_flow6(const struct sk_buff *skb, struct foreign_flow *flow)
{
    u16 head[4];

    if (load(skb, ETHERNET, head, 8) || load(skb, ETHERNET + 8, flow->source, 32))
        return 0;
    u32 length = be16(head[2]), begin = ETHERNET + sizeof(struct ipv6);
    flow->protocol = ((const u8 *)head)[6];
    if ((head[0] & be16(0xf000)) != be16(0x6000) || !is_plain_protocol(flow->protocol) || begin + length > skb->len)
        return 0;
    return !is_v4(flow->source) && !is_v4(flow->destination) && read_segment(skb, begin, length, flow);
}

/* Whether a packet's flow is known to be foreign. What was read before is not looked at: what the verifier knows of that would have it
 * follow the loops over filters many times. */
INLINE int is_foreign(const struct sk_buff *skb)
{
    u32 zero = 0;
    const struct foreign *now = map_lookup(foreign_now_map, &zero), *known;
    struct foreign_flow flow = {};

    /* While nothing is known nothing is looked for. */
    if (!now || !now->generation || load(skb, 12, &flow.type, 2))
        return 0;
    if (flow.type == be16(IPV4)) {
        if (!read_flow4(skb, &flow))
            return 0;
    } else if (flow.type != be16(IPV6) || !read_flow6(skb, &flow)) {
        return 0;
    }
    known = map_lookup(foreign_map, &flow);
    return known && known->generation == *(const volatile u64 *)&now->generation;
}

/* Whether the node gets a frame, or a copy of it, for its channels. What is a channel's by its fixed fields is of no flow that is written
 * down (filters.rs), so it is not looked for once more. */
INLINE int is_wanted(const struct sk_buff *skb, const struct fields *it)
{
    u32 zero = 0;
    struct foreign_count *count;

    if (!is_channel(skb, it, WATCHED))
        return 0;
    if (!is_foreign(skb))
        return 1;
    count = map_lookup(foreign_count_map, &zero);
    if (count)
        count->spared++;
    return 0;
}

#endif
