/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The guard: keeps the node's frames from the Linux stack, which would forward a capsule a second time or answer it
 * with ICMP. It stands at tcx ingress of each interface with an AF_PACKET socket of the node. The socket has received
 * the frame before; all other frames go on unchanged.
 *
 * A plain one stands where there are no channels. Behind an XDP program of the node only packets of channels come here, and
 * the guard is there only while there are channels.
 */
#include "take.h"

enum { NEXT = -1, DROP = 2 };

SECTION("tc") int guard(struct sk_buff *skb)
{
    struct fields it = {};

    if (read(skb, &it))
        return NEXT;
    return (it.is_anep ? is_listening() : is_channel(skb, &it, TAKEN)) ? DROP : NEXT;
}

SECTION("tc_plain") int guard_plain(struct sk_buff *skb)
{
    struct fields it = {};

    return !read(skb, &it) && it.is_anep && is_listening() ? DROP : NEXT;
}

SECTION("tc_channels") int guard_channels(struct sk_buff *skb)
{
    struct fields it = {};

    return !read(skb, &it) && !it.is_anep && is_channel(skb, &it, TAKEN) ? DROP : NEXT;
}
