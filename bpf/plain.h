/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The parser of packets for cut-through. It accepts whole, untagged packets: IPv4 without options or IPv6 without
 * extension headers, consistent lengths, a correct header checksum, no capsule.
 */
#ifndef ANODE_PLAIN_H
#define ANODE_PLAIN_H

#include "wire.h"

/* A packet whose headers have nothing unusual in them. */
struct plain {
    u64 from[2], to[2];
    u32 ports;
    /* Bytes of the IP packet, and of the frame. */
    u32 length, size;
    u16 protocol;
    u8 life, v4;
};

/* Ports of a segment of so many bytes, if it says the same of its length. */
INLINE int read_ports(const u8 *at, const u8 *end, u32 length, struct plain *it)
{
    it->ports = 0;
    if (it->protocol == UDP) {
        const struct udp *udp = (const void *)at;
        if ((const u8 *)(udp + 1) > end || be16(udp->length) != length || udp->destination == be16(PORT))
            return 0;
        it->ports = *(const u32 *)udp;
    } else if (it->protocol == TCP) {
        if (at + 20 > end || length < 20 || (u32)(at[12] >> 4) * 4 < 20 || (u32)(at[12] >> 4) * 4 > length)
            return 0;
        it->ports = *(const u32 *)at;
    }
    return it->protocol != ANEP;
}

INLINE int read_plain4(const u8 *data, const u8 *end, struct plain *it)
{
    const struct ipv4 *ip = (const void *)(data + sizeof(struct ethernet));

    if ((const u8 *)(ip + 1) > end || ip->version != 0x45 || (ip->fragment & be16(0x3fff)) || !is_summed(ip))
        return 0;
    it->from[0] = it->to[0] = 0;
    it->from[1] = mapped(ip->source);
    it->to[1] = mapped(ip->destination);
    it->length = be16(ip->length);
    it->protocol = ip->protocol;
    it->life = ip->ttl;
    it->v4 = 1;
    return it->length >= sizeof(*ip) && read_ports((const u8 *)(ip + 1), end, it->length - (u32)sizeof(*ip), it);
}

/* Protocols that are no extension headers. */
INLINE int is_plain_protocol(u16 protocol)
{
    enum { IN_IPV4 = 4, IN_IPV6 = 41, GRE = 47, SCTP = 132 };
    return protocol == UDP || protocol == TCP || protocol == IN_IPV4 || protocol == IN_IPV6 || protocol == GRE || protocol == SCTP;
}

INLINE int read_plain6(const u8 *data, const u8 *end, struct plain *it)
{
    const struct ipv6 *ip = (const void *)(data + sizeof(struct ethernet));

    if ((const u8 *)(ip + 1) > end || (ip->word & be32(0xf0000000)) != be32(0x60000000) || is_v4(ip->source.half) ||
        is_v4(ip->destination.half) || !is_plain_protocol(ip->next))
        return 0;
    copy(it->from, ip->source.half);
    copy(it->to, ip->destination.half);
    it->length = be16(ip->length) + (u32)sizeof(*ip);
    it->protocol = ip->next;
    it->life = ip->hop_limit;
    it->v4 = 0;
    return read_ports((const u8 *)(ip + 1), end, be16(ip->length), it);
}

/* Whether a frame is an IP packet without anything unusual, and what it is then. */
INLINE int read_plain(struct xdp *ctx, struct plain *it)
{
    const u8 *data = packet(ctx), *end = packet_end(ctx);
    const struct ethernet *ethernet = (const void *)data;

    if (data + sizeof(*ethernet) + sizeof(struct ipv4) > end)
        return 0;
    if (LIKELY(ethernet->type == be16(IPV4))) {
        if (!read_plain4(data, end, it))
            return 0;
    } else if (ethernet->type != be16(IPV6) || !read_plain6(data, end, it)) {
        return 0;
    }
    it->size = (u32)(end - data);
    if (UNLIKELY(it->size != sizeof(*ethernet) + it->length))
        it->size = (u32)xdp_get_buff_len(ctx);
    return it->size >= sizeof(*ethernet) + it->length;
}

#endif
