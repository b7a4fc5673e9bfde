/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The filter of a node's AF_PACKET socket: what the guard takes from the stack, and address resolution, which both look at;
 * behind a kernel half also what that passes up, which has an Ethernet type that it lets in from no wire.
 */
#include "take.h"

enum { PASSED_UP = 0x88b5, NOTHING = 0, WHOLE = -1 };

INLINE int takes(struct sk_buff *skb, u16 passed_up)
{
    struct fields it = {};

    if (read(skb, &it))
        return NOTHING;
    if (it.is_anep || it.type == be16(ARP) || it.type == be16(passed_up))
        return WHOLE;
    if (it.type == be16(IPV6) && it.protocol == ICMPV6)
        return WHOLE;
    return is_channel(skb, &it) ? WHOLE : NOTHING;
}

SECTION("socket") int filter(struct sk_buff *skb) { return takes(skb, ARP); }
SECTION("socket_half") int filter_half(struct sk_buff *skb) { return takes(skb, PASSED_UP); }
