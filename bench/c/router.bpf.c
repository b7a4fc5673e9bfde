// Forwarders for IPv4 as one would write them by hand, without any code of packets: the routing table of the kernel asked for each
// packet ("fib"), the same behind a cache of next hops ("cache"), none of it but the hook ("pass"), and the end of all ("drop"). In "codes" each
// destination's packets go through one of many equal programs ("code"), which do nothing: what many programs cost whatever they do.
//
// What they cannot forward they pass to the kernel: other protocols, a hop limit that ends here, no neighbour, too large a packet.
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
