/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Headers as they stand in a packet (docs/wire.md).
 */
#ifndef ANODE_WIRE_H
#define ANODE_WIRE_H

#include "contract.h"

struct ethernet {
    u16 macs[6];
    u16 type;
};

struct ipv4 {
    u8 version, service;
    u16 length, identification, fragment;
    u8 ttl, protocol;
    u16 checksum;
    u32 source, destination;
};

struct ipv6 {
    u32 word;
    u16 length;
    u8 next, hop_limit;
    struct addr source, destination;
};

struct udp {
    u16 source, destination, length, checksum;
};

struct anep {
    u8 version, flags;
    u16 type, header_words, length;
};

struct capsule {
    u8 version, flags;
    u16 app_port;
    u32 bound;
    u64 code[4];
    struct addr previous, source, destination;
    u8 payload[];
};

_Static_assert(sizeof(struct ethernet) == 14 && sizeof(struct ipv4) == 20 && sizeof(struct ipv6) == 40, "headers");
_Static_assert(sizeof(struct udp) == 8 && sizeof(struct anep) == 8 && sizeof(struct capsule) == 88, "headers");

/* In a capsule header: where the window begins, with source and destination, and bytes of these two. */
enum { LOCKED = 56, ADDRESSES = 32 };

/* Types of Ethernet, protocols of IP, the port of UDP, and the type of ANEP. */
enum { IPV4 = 0x0800, ARP = 0x0806, VLAN = 0x8100, IPV6 = 0x86dd, SERVICE_VLAN = 0x88a8 };
enum { TCP = 6, UDP = 17, ICMPV6 = 58, ANEP = 107 };
enum { PORT = 3322, CAPSULE = 0x0ac0 };

/* The second half of an IPv4-mapped address. */
INLINE u64 mapped(u32 v4) { return 0xffff0000 | (u64)v4 << 32; }

INLINE int is_v4(const u64 addr[2]) { return addr[0] == 0 && (u32)addr[1] == 0xffff0000; }

INLINE int is_equal(const u64 a[2], const u64 b[2]) { return ((a[0] ^ b[0]) | (a[1] ^ b[1])) == 0; }

INLINE void copy(u64 to[2], const u64 from[2])
{
    to[0] = from[0];
    to[1] = from[1];
}

/* Spreads an address over the places of a direct-mapped map, a power of two. Only the product's highest bits depend on
 * an address's last bytes, in which hosts of one network differ. */
INLINE u32 place(const u64 addr[2], u32 seed, u32 entries)
{
    u64 mixed = (addr[0] ^ addr[1] ^ seed) * 0x9e3779b97f4a7c15ull;
    return (u32)(mixed >> (64 - __builtin_ctz(entries)));
}

/* A sum of 16-bit halves (RFC 1071) out of one of at most 1024 words: 42 bits, then 27, 17, 16. */
INLINE u32 fold(u64 sum)
{
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return (u32)((sum & 0xffff) + (sum >> 16));
}

/* Whether an IPv4 header without options has the right checksum: whether the sum of its words is a multiple of 65535. By the inverse
 * of that number modulo 2^64, multiples become the numbers up to 2^64 / 65535. */
INLINE int is_summed(const struct ipv4 *ip)
{
    const u32 *word = (const u32 *)ip;
    u64 sum = (u64)word[0] + word[1] + word[2] + word[3] + word[4];

    return sum * 0xfffefffefffeffffull <= 0x0001000100010001ull;
}

#endif
