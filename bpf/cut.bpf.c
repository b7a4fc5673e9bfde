/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Packets of incoming channels, in XDP: those of cut-through channels pass here (cut.h), others go to the AF_XDP socket of their port.
 *
 *     flow ─▶ TO_CUT: headers, redirect ─▶ TO_USER: AF_XDP socket, or XDP_PASS: AF_PACKET socket and guard ─▶ TO_STACK
 *       └─▶ channel ─▶ way
 *
 * The ingress jumps here with what is no capsule, by a map that nobody pins: so cut-through ends with the node's process, whatever
 * of the kernel half outlives it. Where there is no kernel half, sockets.bpf.c jumps here.
 */
#include "cut.h"

/* Gives a frame of a channel to the user half. Where there are AF_XDP sockets, what may pass here later must not overtake it. */
INLINE int lift_channel(struct xdp *ctx, const struct plain *it, int held)
{
    u32 interface = ctx->ingress_ifindex;
    const struct port *port = map_lookup(ports_map, &interface);

    if (!port || !port->sockets)
        return XDP_PASS;
    return to_user(ctx, port, it ? flow_place(it->from, it->to) : FLOWS, held);
}

/* Counts a packet of a cut-through channel that is left to the user half. */
INLINE void leave(u32 cut)
{
    struct cut_usage *used = map_lookup(cut_usage_map, &cut);

    if (used)
        used->usage.passed_up++;
}

INLINE int act(struct xdp *ctx, const struct plain *it, const struct cut_flow *flow)
{
    if (flow->what == TO_STACK)
        return XDP_PASS;
    if (LIKELY(flow->what == TO_CUT)) {
        int done;

        if (UNLIKELY(flow->sockets)) {
            u32 interface = ctx->ingress_ifindex;
            const struct port *port = map_lookup(ports_map, &interface);
            if (port && must_follow(ctx, port, flow_place(it->from, it->to))) {
                leave(flow->cut);
                return lift_channel(ctx, it, 1);
            }
        }
        done = cut_through(ctx, it, flow);
        if (LIKELY(done != XDP_PASS))
            return done;
        leave(flow->cut);
    }
    return lift_channel(ctx, it, 0);
}

/* Looks closely at a frame; what is found out of a plain one is written down, if other packets of its flow are the same's. */
INLINE int look_at(struct xdp *ctx, const struct plain *it, struct cut_flow *flow)
{
    u32 interface = ctx->ingress_ifindex, channels = channels_now(), generation = (u32)node()->generation;
    const struct port *port = map_lookup(ports_map, &interface);
    struct fields fields = {};
    struct found found = {};

    if (!port || !port->present || packet(ctx) + sizeof(struct ethernet) > packet_end(ctx) || !is_for(packet(ctx), port) ||
        !read_fields(ctx, &fields))
        return XDP_PASS;
    find_channel(ctx, &fields, port->number, &found);
    if (!it || !flow) {
        if (found.cut)
            leave(found.cut);
        return found.is_channel ? lift_channel(ctx, 0, 0) : XDP_PASS;
    }
    /* Nobody must believe it while it changes. */
    flow->until = flow->generation = 0;
    flow->until = jiffies() + TICKS;
    flow->what = !found.is_channel ? TO_STACK : found.cut ? TO_CUT : TO_USER;
    if (found.cut && !find_way(ctx, it, found.cut, flow)) {
        leave(found.cut);
        return lift_channel(ctx, it, 0);
    }
    copy(flow->from, it->from);
    copy(flow->to, it->to);
    flow->ports = it->ports;
    flow->interface = interface;
    flow->protocol = it->protocol;
    flow->sockets = port->sockets != 0;
    flow->mac = port->mac | (u64)port->mac_end << 32;
    flow->channels = channels;
    flow->generation = found.by_key ? 0 : generation;
    return act(ctx, it, flow);
}

/* The place for a flow: its own, or the older one. */
INLINE struct cut_flow *place_flow(const struct plain *it, u32 interface)
{
    u32 first = flow_first(it), second = first + 1;
    struct cut_flow *flow = map_lookup(cut_flows_map, &first), *other = map_lookup(cut_flows_map, &second);

    if (!flow || !other)
        return 0;
    if (is_flow(flow, it, interface))
        return flow;
    return is_flow(other, it, interface) || (long long)(other->until - flow->until) < 0 ? other : flow;
}

/* What is known of a packet's flow, if that is still so. */
INLINE struct cut_flow *find_flow(const struct plain *it, u32 interface)
{
    u32 first = flow_first(it), second = first + 1;
    struct cut_flow *flow = map_lookup(cut_flows_map, &first);

    if (flow && LIKELY(is_flow(flow, it, interface)))
        return is_flow_current(flow) ? flow : 0;
    flow = map_lookup(cut_flows_map, &second);
    return flow && is_flow(flow, it, interface) && is_flow_current(flow) ? flow : 0;
}

/* Flows that are known. */
SECTION("xdp") int cut(struct xdp *ctx)
{
    struct plain it;

    if (LIKELY(read_plain(ctx, &it))) {
        const struct cut_flow *flow = find_flow(&it, ctx->ingress_ifindex);
        const u8 *data = packet(ctx);
        if (LIKELY(flow && data + 8 <= packet_end(ctx) && !((flow->mac ^ *(const u64 *)data) << 16)))
            return act(ctx, &it, flow);
    }
    tail_call(ctx, doors_map, LOOK);
    return XDP_PASS;
}

/* All others. */
SECTION("xdp") int look(struct xdp *ctx)
{
    struct plain it;

    if (!read_plain(ctx, &it))
        return look_at(ctx, 0, 0);
    return look_at(ctx, &it, place_flow(&it, ctx->ingress_ifindex));
}
