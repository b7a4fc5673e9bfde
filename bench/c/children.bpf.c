// Three ways for the kernel to send the children of a packet: replicas of it, each to another destination by another
// next hop.
//
//   broadcast   a device map with an entry for each child clones the frame; a program behind the map edits each copy
//   marks       the frame becomes a packet of the stack, which tcx clones; a program at the interface that it leaves by edits each copy
//   edits       the same, but edited before it is cloned
//
// For all three an XDP program at the ingress has found out where the children go and left that in front of the frame. What ran the code
// that wants children is not part of it.
#include "hop.h"

enum { CHILDREN = GENERATION + 1, TURN, NOTE };
enum { NOTED = 0x0a0dec0d, BROADCAST = 1 << 3, BOUND = 54, CAPSULE_DESTINATION = 134 };

// What travels in front of a frame.
struct note {
	u32 mark, count, destinations[CHILDREN_MAX];
};

// Leaves a note; 0 if the packet is not to be copied.
INLINE int prepare(struct context *ctx)
{
	const struct children *children = VALUE(CHILDREN);
	u8 *ip = forwardable(ctx);
	struct note *note;

	if (!ip)
		return 0;
#pragma unroll
	for (int k = 0; k < CHILDREN_MAX; k++)
		if (k < (int)children->count && !hop_to(ctx, ip, children->destinations[k], VALUE(GENERATION)))
			return 0;
	spend_hop(ip);
	// A recycled frame of the generator's has the note of its last time.
	if (adjust_meta(ctx, (int)(ctx->data - ctx->data_meta) - (int)sizeof *note))
		return 0;
	note = (struct note *)(long)ctx->data_meta;
	if ((u8 *)(note + 1) > start_of(ctx))
		return 0;
	note->mark = NOTED;
	note->count = children->count;
#pragma unroll
	for (int k = 0; k < CHILDREN_MAX; k++)
		note->destinations[k] = children->destinations[k];
	return 1;
}

INLINE u32 nth(const u32 *destinations, u32 k)
{
	u32 low = k & 1 ? destinations[1] : destinations[0], high = k & 1 ? destinations[3] : destinations[2];

	return k & 2 ? high : low;
}

// Makes a copy a child: addresses of link, network and capsule, and its share of the bound.
INLINE int dress(u8 *frame, const u8 *end, u32 destination)
{
	u32 at = place_of(destination);
	const struct next_hop *hop = lookup(MAP(CACHE), &at);
	u8 *ip = frame + ETHERNET;
	u32 before, sum;

	if (!hop || frame + HEAD > end)
		return 0;
	before = ~*(u32 *)(ip + DESTINATION);
	sum = (u16)~*(u16 *)(ip + CHECKSUM) + (before & 0xffff) + (before >> 16) + (destination & 0xffff) + (destination >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	*(u16 *)(ip + CHECKSUM) = (u16) ~((sum & 0xffff) + (sum >> 16));
	*(u32 *)(ip + DESTINATION) = destination;
	*(u32 *)(frame + CAPSULE_DESTINATION) = destination;
	*(u32 *)(frame + BOUND) = __builtin_bswap32(1);
	copy_kept_mac(frame, hop->to);
	copy_kept_mac(frame + 6, hop->from);
	return 1;
}

ENTRY(broadcast)(struct context *ctx)
{
	return prepare(ctx) ? (int)redirect_map(MAP(DEVICES), 0, BROADCAST) : XDP_PASS;
}

// Behind the device map, where the copies of a frame come one after the other.
ENTRY(behind)(struct context *ctx)
{
	const struct note *note = (const struct note *)(long)ctx->data_meta;
	u32 zero = 0, *turn = lookup(MAP(TURN), &zero), k;

	if ((const u8 *)(note + 1) > start_of(ctx) || note->mark != NOTED || !turn)
		return XDP_PASS;
	k = *turn;
	*turn = k + 1 < note->count ? k + 1 : 0;
	return dress(start_of(ctx), end_of(ctx), nth(note->destinations, k)) ? XDP_PASS : XDP_DROP;
}

// In front of the stack, for tcx.
ENTRY(note)(struct context *ctx)
{
	prepare(ctx);
	return XDP_PASS;
}

INLINE const struct note *note_of(const struct skb *skb)
{
	const struct note *note = (const struct note *)(long)skb->data_meta;

	return (const u8 *)(note + 1) <= (const u8 *)(long)skb->data && note->mark == NOTED ? note : 0;
}

TCX(marks)(struct skb *skb)
{
	const struct children *children = VALUE(CHILDREN);
	const struct note *note = note_of(skb);
	struct note *kept = VALUE(NOTE);
	u32 last;

	if (!note)
		return TCX_NEXT;
	*kept = *note;
	last = kept->count - 1;
#pragma unroll
	for (u32 k = 0; k + 1 < CHILDREN_MAX; k++)
		if (k < last) {
			skb->mark = NOTED + k;
			clone_redirect(skb, children->interface, 0);
		}
	skb->mark = NOTED + last;
	return (int)redirect(children->interface, 0);
}

TCX(leaving)(struct skb *skb)
{
	const struct note *kept = VALUE(NOTE);
	u32 k = skb->mark - NOTED;

	if (k >= CHILDREN_MAX)
		return TCX_NEXT;
	skb->mark = 0;
	return dress((u8 *)(long)skb->data, (u8 *)(long)skb->data_end, nth(kept->destinations, k)) ? TCX_NEXT : TCX_DROP;
}

TCX(edits)(struct skb *skb)
{
	const struct children *children = VALUE(CHILDREN);
	const struct note *note = note_of(skb);
	u32 last;

	if (!note)
		return TCX_NEXT;
	last = note->count - 1;
#pragma unroll
	for (u32 k = 0; k < CHILDREN_MAX; k++)
		if (k <= last) {
			if (!dress((u8 *)(long)skb->data, (u8 *)(long)skb->data_end, children->destinations[k]))
				return TCX_DROP;
			if (k == last)
				return (int)redirect(children->interface, 0);
			clone_redirect(skb, children->interface, 0);
		}
	return TCX_DROP;
}
