// One hop of IPv4 by the kernel's routes, for programs of the kernel: whether a packet may go on, where to, and what that changes.
#ifndef ANODE_BENCH_HOP_H
#define ANODE_BENCH_HOP_H
#include "program.h"

enum { DEVICES, CACHE, GENERATION, CODES, LEAVING };
enum { ETHER_TYPE = 12, TOS = 1, TOTAL = 2, TTL = 8, PROTOCOL = 9, CHECKSUM = 10, SOURCE = 12, DESTINATION = 16 };

// Where the way to a destination is remembered: destinations that follow each other have places of their own.
INLINE u32 place_of(u32 destination)
{
	return (be32(destination) * 0x9e3779b1u) >> 18;
}

// The IP header if the packet may be forwarded.
INLINE u8 *forwardable(struct context *ctx)
{
	u8 *frame = start_of(ctx), *ip = frame + ETHERNET;

	if (ip + IP > end_of(ctx) || *(u16 *)(frame + ETHER_TYPE) != be16(0x0800) || ip[0] != 0x45 || ip[TTL] < 2)
		return 0;
	return ip;
}

INLINE long ask(struct context *ctx, const u8 *ip, u32 destination, struct fib_lookup *query)
{
	*query = (struct fib_lookup){ .family = AF_INET,
				      .l4_protocol = ip[PROTOCOL],
				      .tot_len = be16(*(u16 *)(ip + TOTAL)),
				      .ifindex = ctx->ingress_ifindex,
				      .tos = ip[TOS],
				      .ipv4_src = *(u32 *)(ip + SOURCE),
				      .ipv4_dst = destination };
	return fib_lookup(ctx, query, sizeof *query, 0);
}

// From the answer of fib_lookup, which lies on the stack and is aligned to two bytes.
INLINE void copy_mac(u8 *to, const u8 *from)
{
	*(u16 *)to = *(const u16 *)from;
	*(u16 *)(to + 2) = *(const u16 *)(from + 2);
	*(u16 *)(to + 4) = *(const u16 *)(from + 4);
}

// From the cache, where it has eight bytes.
INLINE void copy_kept_mac(u8 *to, const u8 *from)
{
	*(u32 *)to = *(const u32 *)from;
	*(u16 *)(to + 4) = *(const u16 *)(from + 4);
}

// RFC 1624: the hop limit is the upper byte of its word.
INLINE void spend_hop(u8 *ip)
{
	u32 sum = *(u16 *)(ip + CHECKSUM) + (u32)be16(0x0100);

	*(u16 *)(ip + CHECKSUM) = (u16)(sum + (sum >= 0xffff));
	ip[TTL]--;
}

// The way to a destination, remembered or asked for; none if the kernel has none for such a packet.
INLINE struct next_hop *hop_to(struct context *ctx, const u8 *ip, u32 destination, const u32 *generation)
{
	u32 at = place_of(destination);
	struct next_hop *hop = lookup(MAP(CACHE), &at);
	struct fib_lookup query;

	if (!hop)
		return 0;
	if (hop->destination != destination || hop->generation != *generation || be16(*(u16 *)(ip + TOTAL)) > hop->mtu) {
		if (ask(ctx, ip, destination, &query))
			return 0;
		hop->destination = destination;
		hop->generation = *generation;
		hop->interface = query.ifindex;
		hop->mtu = query.tot_len; // the answer is the MTU of the route
		copy_mac(hop->to, query.dmac);
		copy_mac(hop->from, query.smac);
	}
	return hop;
}

#endif
