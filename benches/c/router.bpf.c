// Forwarders for IPv4 as one would write them by hand, without any code of packets: the routing table of the kernel asked for each
// packet ("fib"), the same behind a cache of next hops ("cache"), none of it but the hook ("pass"), and the end of all ("drop").
//
// What they cannot forward they pass to the kernel: other protocols, a hop limit that ends here, no neighbour, too large a packet.
#include "program.h"

enum { DEVICES, CACHE, GENERATION };
enum { ETHER_TYPE = 12, TOS = 1, TOTAL = 2, TTL = 8, PROTOCOL = 9, CHECKSUM = 10, SOURCE = 12, DESTINATION = 16 };

// The IP header if the packet may be forwarded.
INLINE u8 *forwardable(struct context *ctx)
{
	u8 *frame = start_of(ctx), *ip = frame + ETHERNET;

	if (ip + IP > end_of(ctx) || *(u16 *)(frame + ETHER_TYPE) != be16(0x0800) || ip[0] != 0x45 || ip[TTL] < 2)
		return 0;
	return ip;
}

INLINE long ask(struct context *ctx, const u8 *ip, struct fib_lookup *query)
{
	*query = (struct fib_lookup){ .family = AF_INET,
				      .l4_protocol = ip[PROTOCOL],
				      .tot_len = be16(*(u16 *)(ip + TOTAL)),
				      .ifindex = ctx->ingress_ifindex,
				      .tos = ip[TOS],
				      .ipv4_src = *(u32 *)(ip + SOURCE),
				      .ipv4_dst = *(u32 *)(ip + DESTINATION) };
	return fib_lookup(ctx, query, sizeof *query, 0);
}

// From the answer of fib_lookup, which lies on the stack and is aligned to two octets.
INLINE void copy_mac(u8 *to, const u8 *from)
{
	*(u16 *)to = *(const u16 *)from;
	*(u16 *)(to + 2) = *(const u16 *)(from + 2);
	*(u16 *)(to + 4) = *(const u16 *)(from + 4);
}

// From the cache, where it has eight octets.
INLINE void copy_kept_mac(u8 *to, const u8 *from)
{
	*(u32 *)to = *(const u32 *)from;
	*(u16 *)(to + 4) = *(const u16 *)(from + 4);
}

// RFC 1624: the hop limit is the upper octet of its word.
INLINE void spend_hop(u8 *ip)
{
	u32 sum = *(u16 *)(ip + CHECKSUM) + (u32)be16(0x0100);

	*(u16 *)(ip + CHECKSUM) = (u16)(sum + (sum >= 0xffff));
	ip[TTL]--;
}

ENTRY(fib)(struct context *ctx)
{
	u8 *ip = forwardable(ctx);
	struct fib_lookup query;

	if (!ip || ask(ctx, ip, &query))
		return XDP_PASS;
	spend_hop(ip);
	copy_mac(ip - ETHERNET, query.dmac);
	copy_mac(ip - ETHERNET + 6, query.smac);
	return (int)redirect_map(MAP(DEVICES), query.ifindex, XDP_PASS);
}

ENTRY(cache)(struct context *ctx)
{
	u8 *ip = forwardable(ctx);
	const u32 *generation = VALUE(GENERATION);
	struct fib_lookup query;
	struct next_hop *hop;
	u32 at;

	if (!ip)
		return XDP_PASS;
	at = (*(u32 *)(ip + DESTINATION) * 0x9e3779b1u) >> 24;
	hop = lookup(MAP(CACHE), &at);
	if (!hop)
		return XDP_PASS;
	if (hop->destination != *(u32 *)(ip + DESTINATION) || hop->generation != *generation ||
	    be16(*(u16 *)(ip + TOTAL)) > hop->mtu) {
		if (ask(ctx, ip, &query))
			return XDP_PASS;
		hop->destination = *(u32 *)(ip + DESTINATION);
		hop->generation = *generation;
		hop->interface = query.ifindex;
		hop->mtu = query.tot_len; // the answer is the MTU of the route
		copy_mac(hop->to, query.dmac);
		copy_mac(hop->from, query.smac);
	}
	spend_hop(ip);
	copy_kept_mac(ip - ETHERNET, hop->to);
	copy_kept_mac(ip - ETHERNET + 6, hop->from);
	return (int)redirect_map(MAP(DEVICES), hop->interface, XDP_PASS);
}

ENTRY(pass)(struct context *ctx)
{
	(void)ctx;
	return XDP_PASS;
}

ENTRY(drop)(struct context *ctx)
{
	(void)ctx;
	return XDP_DROP;
}
