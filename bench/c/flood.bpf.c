// The two ends of the flood: the generator of each frame, and the sink that counts and drops it behind the router.
//
// The kernel recycles the frames of a test run with whatever the router wrote into them, so the generator writes the headers of each
// anew, from a table that it goes through in turn: destinations and codes change from packet to packet as the table says.
#include "program.h"

enum { GENERATOR, TABLE, SINK, ETHER_TYPE = 12 };

INLINE int next_frame(struct context *ctx, struct generator *g)
{
	u8 *frame = start_of(ctx);
	u32 at = g->next;
	const u8 *head = lookup(MAP(TABLE), &at);

	g->next = at + 1 < g->count ? at + 1 : 0;
	if (!head)
		return XDP_DROP;
	if (frame + HEAD > end_of(ctx)) {
		if (frame + SHORT > end_of(ctx))
			return XDP_DROP;
#pragma unroll
		for (int i = 0; i + 8 <= SHORT; i += 8)
			*(u64 *)(frame + i) = *(const u64 *)(head + i);
		*(u16 *)(frame + SHORT - 2) = *(const u16 *)(head + SHORT - 2);
		return XDP_TX;
	}
#pragma unroll
	for (int i = 0; i + 8 <= HEAD; i += 8)
		*(u64 *)(frame + i) = *(const u64 *)(head + i);
	*(u32 *)(frame + HEAD - 6) = *(const u32 *)(head + HEAD - 6);
	*(u16 *)(frame + HEAD - 2) = *(const u16 *)(head + HEAD - 2);
	return XDP_TX;
}

ENTRY(generate)(struct context *ctx)
{
	return next_frame(ctx, VALUE(GENERATOR));
}

// The same in bursts, which begin at equal distances. It waits here, for to leave frames out would keep the kernel's pool of pages
// busy, and that would cost those who are measured.
ENTRY(paced)(struct context *ctx)
{
	struct generator *g = VALUE(GENERATOR);
	u64 now = 0;

	if (!g->left) {
		for (int i = 0; i < ROUNDS && now < g->until_ns; i++)
#pragma unroll
			for (int k = 0; k < READINGS; k++)
				now = clock_now();
		g->until_ns = now + g->interval_ns;
		g->left = g->burst;
	}
	g->left--;
	return next_frame(ctx, g);
}

// Stands for the next hop: every address is at the sink's.
INLINE int answer_arp(u8 *frame, const u8 *end, const struct sink *s)
{
	enum { OPERATION = 20, SENDER = 22, TARGET = 32, MAC = 6, ARP = 42 };
	u32 asked;

	if (frame + ARP > end || *(u16 *)(frame + OPERATION) != be16(1))
		return 0;
	asked = *(u32 *)(frame + TARGET + MAC);
	__builtin_memcpy(frame, frame + SENDER, MAC);
	__builtin_memcpy(frame + TARGET, frame + SENDER, MAC + 4);
	__builtin_memcpy(frame + MAC, s->mac, MAC);
	__builtin_memcpy(frame + SENDER, s->mac, MAC);
	*(u32 *)(frame + SENDER + MAC) = asked;
	*(u16 *)(frame + OPERATION) = be16(2);
	return 1;
}

INLINE int is_arp(const u8 *frame, const u8 *end)
{
	return frame + ETHERNET <= end && *(u16 *)(frame + ETHER_TYPE) == be16(0x0806);
}

// Counts a frame of the flood; a sample is copied from `ctx`, a packet of the stack's or a frame.
INLINE void count(void *ctx, const u8 *frame, const u8 *end, u64 length, struct sink *s, int of_stack)
{
	if (frame + SHORT > end || length != s->length || *(u16 *)(frame + UDP_DESTINATION) != s->port)
		return;
	s->arrived++;
	if (s->armed) {
		s->armed = 0;
		if (length >= SHORT && length <= FRAME)
			of_stack ? skb_load_bytes(ctx, 0, s->sample, (u32)length) : load_bytes(ctx, 0, s->sample, (u32)length);
	}
}

ENTRY(sink)(struct context *ctx)
{
	struct sink *s = VALUE(SINK);
	u8 *frame = start_of(ctx), *end = end_of(ctx);

	if (is_arp(frame, end))
		return answer_arp(frame, end, s) ? XDP_TX : XDP_DROP;
	count(ctx, frame, end, (u64)(end - frame), s, 0);
	return XDP_DROP;
}

// The same for a next hop without XDP: its driver makes a packet of the stack's of each frame first.
TCX(taken)(struct skb *skb)
{
	struct sink *s = VALUE(SINK);
	u8 *frame = (u8 *)(long)skb->data, *end = (u8 *)(long)skb->data_end;

	if (is_arp(frame, end))
		return answer_arp(frame, end, s) ? (int)redirect(skb->ifindex, 0) : TCX_DROP;
	count(skb, frame, end, skb->len, s, 1);
	return TCX_DROP;
}
