/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The program of one generation of a graph: what is around its engines. `capsule` below is those: instructions that the node makes of
 * the graph (src/kernel/fuse.rs), all engines in one function, and links behind this one.
 *
 *     cut.bpf.c ─▶ budget ─▶ engines ─┬─▶ bandwidth ─▶ headers, end ─▶ redirect
 *                                     ├─▶ dropped by an engine
 *                                     └─▶ up as it came: nothing has been done to it, and it has not been counted
 *
 * Plain packets come here alone (plain.h), in one buffer. Nothing waits here: where a graph has a queue, the packet passes.
 */
#include "cut.h"

/* The engines, for a packet of so many bytes. ENDED, AS_IT_CAME, or how it leaves: in the lowest 32 bits the interface, above these the
 * byte of the frame that is its first then, and that behind its last one. */
extern u64 capsule(struct xdp *ctx, struct graph_words *words, u64 size);

enum { ENDED, AS_IT_CAME };

/* A packet leaves as the engines have said. */
INLINE int leave_by(struct xdp *ctx, const struct cut *cut, struct cut_usage *used, u64 way, u32 size)
{
    u32 interface = (u32)way, first = (u32)(way >> 32) & 0xffff, end = (u32)(way >> 48);

    if (!may_send(cut->of_domain, &used->of_domain, end - first)) {
        used->by_domain++;
        return XDP_DROP;
    }
    if (end < size && xdp_adjust_tail(ctx, (int)end - (int)size))
        return drop_broken(used);
    if (first && xdp_adjust_head(ctx, (int)first))
        return drop_broken(used);
    used->sent++;
    used->sent_bytes += end - first;
    return (int)redirect_map(transmit_map, interface, 0);
}

/* Gives a packet to the user half, as it came. */
INLINE int give_up(struct xdp *ctx, u32 number)
{
    struct plain it;

    leave(number);
    return read_plain(ctx, &it) ? punt_channel(ctx, &it, 0) : punt_channel(ctx, 0, 0);
}

SECTION("xdp") int graph(struct xdp *ctx)
{
    const struct scratch *on = map_lookup(scratch_map, zero_value);
    struct graph_words *words = map_lookup(graph_words_map, zero_value);
    u32 number = on ? on->door : 0, payload = on ? on->payload : 0;
    const struct cut *cut = map_lookup(cuts_map, &number);
    struct cut_usage *used = map_lookup(cut_usage_map, &number);
    u32 size = (u32)(packet_end(ctx) - packet(ctx));
    u64 began = 0, way = AS_IT_CAME;
    int done;

    if (words && cut && used && on && on->frame == size) {
        if (UNLIKELY(!used->usage.left) && !take_share(cut->domain, &used->usage, ktime_get_ns())) {
            used->usage.bytes += size;
            used->usage.by_budget++;
            used->refused_bytes += payload;
            return XDP_DROP;
        }
        if (UNLIKELY(is_timed(&used->usage)))
            began = ktime_get_ns();
        way = capsule(ctx, words, size);
    }
    if (UNLIKELY(way == AS_IT_CAME || !cut || !used))
        return give_up(ctx, number);
    used->usage.left--;
    used->usage.packets++;
    used->usage.bytes += size;
    used->bytes += payload;
    done = way == ENDED ? drop_broken(used) : leave_by(ctx, cut, used, way, size);
    if (UNLIKELY(began))
        charge(cut->domain, &used->usage, took(began, cut->domain));
    return done;
}
