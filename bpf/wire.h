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

enum { IPV4 = 0x0800, IPV6 = 0x86dd };
enum { UDP = 17, ANEP = 107, PORT = 3322, CAPSULE = 0x0ac0 };

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
 * an address's last octets, in which hosts of one network differ. */
INLINE u32 place(const u64 addr[2], u32 seed, u32 entries)
{
    u64 mixed = (addr[0] ^ addr[1] ^ seed) * 0x9e3779b97f4a7c15ull;
    return (u32)(mixed >> (64 - __builtin_ctz(entries)));
}

/* The sum over an IPv4 header without options (RFC 1071): 0xffff if its checksum is right. */
INLINE u32 fold_ipv4(const struct ipv4 *ip)
{
    const u16 *half = (const u16 *)ip;
    u32 sum = 0;

#pragma clang loop unroll(full)
    for (int i = 0; i < 10; i++)
        sum += half[i];
    sum = (sum & 0xffff) + (sum >> 16);
    return (sum & 0xffff) + (sum >> 16);
}

INLINE void sum_ipv4(struct ipv4 *ip)
{
    ip->checksum = 0;
    ip->checksum = (u16)~fold_ipv4(ip);
}

#endif
