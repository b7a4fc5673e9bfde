// Forwarders for IPv4 as written by hand, without any code of packets. "fib" asks the kernel's routing table for each
// packet. "cache" does so behind a cache of next hops. "pass" is the hook alone, "drop" the end of all packets. In
// "codes" each destination's packets go through one of many equal programs ("code") that do nothing: the cost of many
// programs.
//
// Packets that they cannot forward go to the kernel: other protocols, a hop limit that ends here, no neighbour, too
// large a packet.
#include "hop.h"

ENTRY(fib)(struct context *ctx)
{
	u8 *ip = forwardable(ctx);
	struct fib_lookup query;

	if (!ip || ask(ctx, ip, *(u32 *)(ip + DESTINATION), &query))
		return XDP_PASS;
	spend_hop(ip);
	copy_mac(ip - ETHERNET, query.dmac);
	copy_mac(ip - ETHERNET + 6, query.smac);
	return (int)redirect_map(MAP(DEVICES), query.ifindex, XDP_PASS);
}

ENTRY(cache)(struct context *ctx)
{
	u8 *ip = forwardable(ctx);
	struct next_hop *hop;

	if (!ip || !(hop = hop_to(ctx, ip, *(u32 *)(ip + DESTINATION), VALUE(GENERATION))))
		return XDP_PASS;
	spend_hop(ip);
	copy_kept_mac(ip - ETHERNET, hop->to);
	copy_kept_mac(ip - ETHERNET + 6, hop->from);
	return (int)redirect_map(MAP(DEVICES), hop->interface, XDP_PASS);
}

ENTRY(codes)(struct context *ctx)
{
	u8 *ip = forwardable(ctx);
	struct next_hop *hop;

	if (!ip || !(hop = hop_to(ctx, ip, *(u32 *)(ip + DESTINATION), VALUE(GENERATION))))
		return XDP_PASS;
	spend_hop(ip);
	copy_kept_mac(ip - ETHERNET, hop->to);
	copy_kept_mac(ip - ETHERNET + 6, hop->from);
	*(u32 *)VALUE(LEAVING) = hop->interface;
	tail_call(ctx, MAP(CODES), place_of(hop->destination) % PROGRAMS);
	return XDP_ABORTED;
}

ENTRY(code)(struct context *ctx)
{
	(void)ctx;
	return (int)redirect_map(MAP(DEVICES), *(u32 *)VALUE(LEAVING), XDP_PASS);
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
