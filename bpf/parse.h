/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The parser of capsules in the kernel half. It accepts simple frames only: untagged, no IP options, no fragment, time
 * to live above one, and headers that agree with the capsule. All other capsules are punted.
 */
#ifndef ANODE_PARSE_H
#define ANODE_PARSE_H

#include "wire.h"

/* The form of a frame by its protocols alone: where its capsule header stands, or 0. */
INLINE u32 form_of(const u8 *data, const u8 *end)
{
    const struct ethernet *ethernet = (const void *)data;
    const struct ipv4 *ip = (const void *)(ethernet + 1);
    const struct ipv6 *ip6 = (const void *)(ethernet + 1);

    if (data + BEHIND_IPV4 > end)
        return 0;
    if (LIKELY(ethernet->type == be16(IPV4))) {
        if (LIKELY(ip->protocol == UDP))
            return ((const struct udp *)(ip + 1))->destination == be16(PORT) ? BEHIND_UDP : 0;
        return ip->protocol == ANEP ? BEHIND_IPV4 : 0;
    }
    if (ethernet->type != be16(IPV6) || data + BEHIND_IPV6 > end)
        return 0;
    if (ip6->next == UDP)
        return ((const struct udp *)(ip6 + 1))->destination == be16(PORT) ? BEHIND_UDP6 : 0;
    return ip6->next == ANEP ? BEHIND_IPV6 : 0;
}

/* Whether an IPv4 header is fit to be forwarded, around so many bytes and a capsule to a mapped address. */
INLINE int is_fit_v4(const struct ipv4 *ip, const struct capsule *capsule, u32 inside)
{
    return ip->version == 0x45 && !(ip->fragment & be16(0x3fff)) && ip->ttl > 1 && be16(ip->length) == sizeof(*ip) + inside &&
           ip->destination == *((const u32 *)&capsule->destination + 3) && is_summed(ip);
}

/* A mapped address means IPv4 everywhere else: here it is malformed. */
INLINE int is_fit_v6(const struct ipv6 *ip, const struct capsule *capsule, u32 inside)
{
    return (ip->word & be32(0xf0000000)) == be32(0x60000000) && ip->hop_limit > 1 && be16(ip->length) == inside &&
           !is_v4(ip->source.half) && !is_v4(ip->destination.half) &&
           is_equal(ip->destination.half, capsule->destination.half);
}

/* The largest frame in UDP over IPv6 that is handled here, in words of 8 bytes: more is not summed (act.h). */
enum { SUMMED_MAX = 512 };

/* Bytes of the ANEP packet, if a frame of `size` bytes is a good capsule in this form, to an address of the form's family; else 0.
 * Its capsule header is within it. */
INLINE u32 anep_length(const u8 *data, u32 size, u32 form)
{
    const struct capsule *capsule = (const void *)(data + form);
    const struct anep *anep = (const struct anep *)capsule - 1;
    const struct udp *udp = (const struct udp *)anep - 1;
    u32 length = be16(anep->length);

    if (*(const u32 *)anep != (be16(0x0100) | (u32)be16(CAPSULE) << 16) || anep->header_words != be16(2) ||
        *(const u16 *)capsule != be16(0x0100) || size != form - sizeof(*anep) + length)
        return 0;
    if (form == BEHIND_UDP || form == BEHIND_UDP6) {
        if (be16(udp->length) != sizeof(*udp) + length)
            return 0;
    }
    if (form == BEHIND_UDP6 && size > SUMMED_MAX * 8)
        return 0;
    u32 inside = length + (form == BEHIND_UDP || form == BEHIND_UDP6 ? (u32)sizeof(*udp) : 0);
    const void *ip = data + sizeof(struct ethernet);
    return (form < BEHIND_IPV6 ? is_fit_v4(ip, capsule, inside) : is_fit_v6(ip, capsule, inside)) ? length : 0;
}

#endif
