/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Which frames are capsules in the form that the kernel half handles.
 */
#ifndef ANODE_PARSE_H
#define ANODE_PARSE_H

#include "wire.h"

/* Offset of the ANEP header if the frame is a capsule in the common form, else 0: untagged, no IP
 * options, no fragment, no UDP checksum to keep right, room to live. */
INLINE u32 find_anep(const u8 *data, const u8 *end)
{
    const struct ethernet *ethernet = (const void *)data;
    const struct ipv4 *ip = (const void *)(ethernet + 1);
    const struct udp *udp = (const void *)(ip + 1);

    if ((const u8 *)(udp + 1) > end)
        return 0;
    if (ethernet->type == be16(IPV4)) {
        if (ip->version != 0x45 || ip->fragment & be16(0x3fff) || ip->ttl <= 1 || fold_ipv4(ip) != 0xffff)
            return 0;
        if (ip->protocol == ANEP)
            return BEHIND_IPV4 - 8;
        if (ip->protocol != UDP || udp->destination != be16(PORT) || udp->checksum)
            return 0;
        return be16(udp->length) == be16(ip->length) - 20 ? BEHIND_UDP - 8 : 0;
    }
    if (ethernet->type == be16(IPV6)) {
        const struct ipv6 *ip6 = (const void *)(ethernet + 1);
        if ((const u8 *)(ip6 + 1) > end || ip6->hop_limit <= 1 || (ip6->word & be32(0xf0000000)) != be32(0x60000000))
            return 0;
        return ip6->next == ANEP ? BEHIND_IPV6 - 8 : 0;
    }
    return 0;
}

/* Whether the headers around the capsule say what it says itself, and the frame of so many octets ends with it. */
INLINE int agrees(const u8 *data, u32 size, const struct capsule *capsule, u32 offset, u32 anep_length)
{
    if (size != offset + anep_length)
        return 0;
    if (offset == BEHIND_IPV6 - 8) {
        const struct ipv6 *ip = (const void *)(data + 14);
        /* A mapped address means IPv4 everywhere else: here it is malformed. */
        return !is_v4(ip->source.half) && !is_v4(ip->destination.half) &&
               is_equal(ip->destination.half, capsule->destination.half) && be16(ip->length) == anep_length;
    }
    const struct ipv4 *ip = (const void *)(data + 14);
    return capsule->destination.half[0] == 0 && capsule->destination.half[1] == mapped(ip->destination) &&
           be16(ip->length) == offset - 14 + anep_length;
}

#endif
