// The two ends of the flood: what makes each frame, and what counts and drops it behind the router.
//
// The kernel recycles the frames of a test run with whatever the router wrote into them, so the generator writes the headers of each
// anew, from a table that it goes through in turn: destinations and codes change from packet to packet as the table says.
#include "program.h"

enum { GENERATOR, TABLE, SINK };

INLINE int next_frame(struct context *ctx, struct generator *g)
{
	u8 *frame = start_of(ctx);
	u32 at = g->next;
	const u8 *head = lookup(MAP(TABLE), &at);

	g->next = at + 1 < g->count ? at + 1 : 0;
	if (!head || frame + HEAD > end_of(ctx))
		return XDP_DROP;
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

ENTRY(sink)(struct context *ctx)
{
	struct sink *s = VALUE(SINK);
	u8 *frame = start_of(ctx), *end = end_of(ctx);
	u64 length = (u64)(end - frame);

	if (frame + HEAD > end || length != s->length || *(u16 *)(frame + UDP_DESTINATION) != be16(CAPSULE_PORT))
		return XDP_DROP;
	s->arrived++;
	if (s->armed) {
		s->armed = 0;
		if (length >= HEAD && length <= FRAME)
			load_bytes(ctx, 0, s->sample, (u32)length);
	}
	return XDP_DROP;
}
