/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The guard in front of the Linux stack of an interface that an active node listens on with an
 * AF_PACKET socket. The socket has seen every frame before it comes here (tcx ingress); the guard
 * takes what is the node's away from the stack, which would otherwise forward it a second time or answer
 * it with ICMP. Everything else goes on unchanged.
 *
 * Behind an XDP program of the node's that is packets of channels alone, and the guard is there only while there are some.
 */
#include "take.h"

enum { NEXT = -1, DROP = 2 };

SECTION("tc") int guard(struct sk_buff *skb)
{
    struct fields it = {};

    if (read(skb, &it))
        return NEXT;
    return (it.is_anep ? is_listening() : is_channel(skb, &it)) ? DROP : NEXT;
}

SECTION("tc_channels") int guard_channels(struct sk_buff *skb)
{
    struct fields it = {};

    return !read(skb, &it) && !it.is_anep && is_channel(skb, &it) ? DROP : NEXT;
}
