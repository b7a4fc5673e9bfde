/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The filters of a node's AF_PACKET sockets. One takes the node's frames, as the guard does, and address resolution.
 * Behind an XDP program of the node, which punts to another socket, a second one takes the guard's frames alone. A plain
 * one knows of no channels: the kernel verifies it in a moment, and it stands where there are none.
 */
#include "foreign.h"

enum { NOTHING = 0, WHOLE = -1 };

SECTION("socket") int filter(struct sk_buff *skb)
{
    struct fields it = {};

    if (read(skb, &it))
        return NOTHING;
    if (it.is_anep)
        return is_listening() ? WHOLE : NOTHING;
    if (it.type == be16(ARP))
        return WHOLE;
    if (it.type == be16(IPV6) && it.protocol == ICMPV6)
        return WHOLE;
    return is_wanted(skb, &it) ? WHOLE : NOTHING;
}

SECTION("socket_plain") int filter_plain(struct sk_buff *skb)
{
    struct fields it = {};

    if (read(skb, &it))
        return NOTHING;
    if (it.is_anep)
        return is_listening() ? WHOLE : NOTHING;
    return it.type == be16(ARP) || (it.type == be16(IPV6) && it.protocol == ICMPV6) ? WHOLE : NOTHING;
}

SECTION("socket_channels") int filter_channels(struct sk_buff *skb)
{
    struct fields it = {};

    return !read(skb, &it) && !it.is_anep && is_wanted(skb, &it) ? WHOLE : NOTHING;
}
