/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Packets of incoming channels, in XDP. Those of cut-through channels pass here (cut.h); others go to the AF_XDP
 * socket of their port.
 *
 *     flow ─▶ TO_CUT: headers, redirect ─▶ TO_USER: AF_XDP socket, or XDP_PASS: AF_PACKET socket and guard ─▶ TO_STACK
 *       └─▶ channel ─▶ way
 *
 * The ingress jumps here with every frame that is no capsule, by a map without a pin. So cut-through ends with the
 * node's process, even if the kernel half outlives it. Without a kernel half, sockets.bpf.c jumps here.
 */
#include "cut.h"

/* Bytes of a packet's payload, as its channel counts them: behind the headers that the channel names. */
INLINE u32 payload_of(struct xdp *ctx, const struct plain *it, u32 on_transport)
{
    u32 headers = it->v4 ? sizeof(struct ipv4) : sizeof(struct ipv6);
    const u8 *segment = packet(ctx) + sizeof(struct ethernet) + headers;

    if (on_transport && it->protocol == UDP)
        headers += sizeof(struct udp);
    else if (on_transport && segment + 13 <= packet_end(ctx))
        headers += (u32)(segment[12] >> 4) * 4;
    return it->length - headers;
}

/* Jumps to the program of a graph. Comes back if that is not there. The first graphs are reached by jumps that are fixed. */
INLINE void enter_graph(struct xdp *ctx, const struct plain *it, const struct cut_flow *flow)
{
    u32 graph = flow->graph;
    struct scratch *on = map_lookup(scratch_map, zero_value);

    if (!on)
        return;
    on->door = flow->cut;
    on->payload = payload_of(ctx, it, flow->on_transport);
    on->frame = it->size;
    if (graph == 0)
        JUMP(ctx, graphs_map, 0);
    else if (graph == 1)
        JUMP(ctx, graphs_map, 1);
    else if (graph == 2)
        JUMP(ctx, graphs_map, 2);
    else
        tail_call(ctx, graphs_map, graph);
}

INLINE int act(struct xdp *ctx, const struct plain *it, const struct cut_flow *flow)
{
    if (flow->what == TO_STACK)
        return pass(ctx);
    if (flow->what == TO_GRAPH) {
        if (UNLIKELY(flow->sockets)) {
            u32 interface = ctx->ingress_ifindex;
            const struct port *port = map_lookup(ports_map, &interface);
            if (port && must_follow(ctx, port, channel_place(it))) {
                leave(flow->cut);
                return punt_channel(ctx, it, 1);
            }
        }
        enter_graph(ctx, it, flow);
        leave(flow->cut);
        return punt_channel(ctx, it, 0);
    }
    if (LIKELY(flow->what == TO_CUT)) {
        int done;

        if (UNLIKELY(flow->sockets)) {
            u32 interface = ctx->ingress_ifindex;
            const struct port *port = map_lookup(ports_map, &interface);
            if (port && must_follow(ctx, port, channel_place(it))) {
                leave(flow->cut);
                return punt_channel(ctx, it, 1);
            }
        }
        done = cut_through(ctx, it, flow);
        if (LIKELY(done != XDP_PASS))
            return done;
        leave(flow->cut);
    }
    return punt_channel(ctx, it, 0);
}

/* What is in memory from here on is known to nobody: neither to the compiler nor to the verifier. */
#define forget() asm volatile("" ::: "memory")

/* Whose the frame is: fills in what was found. 0 if it is not even to be looked for. */
INLINE int find_owner(struct xdp *ctx, const struct port *port, struct scratch *on)
{
    on->fields = (struct fields){};
    on->found = (struct found){};
    if (!read_fields(ctx, &on->fields))
        return 0;
    forget();
    find_channel(ctx, &on->fields, port->number, &on->key, &on->among, &on->found);
    forget();
    return 1;
}

/* Acts on what was found out about a plain packet, by these generations of channels and node; it is written down, if other packets of its
 * flow are the same's. */
INLINE int act_on(struct xdp *ctx, const struct port *port, struct scratch *on, struct cut_flow *flow, u32 channels, u32 generation)
{
    u32 interface = ctx->ingress_ifindex;
    const struct plain *it = &on->plain;
    u64 until = jiffies() + TICKS;
    /* Nobody must believe it while it changes. */
    flow->until = 0;
    flow->what = !on->found.is_channel ? TO_STACK : on->found.cut ? TO_CUT : TO_USER;
    if (on->found.cut && !find_way(ctx, it, on->found.cut, flow, &until)) {
        leave(on->found.cut);
        return punt_channel(ctx, it, 0);
    }
    copy(flow->from, it->from);
    copy(flow->to, it->to);
    flow->ports = it->ports;
    flow->interface = interface;
    flow->protocol = it->protocol;
    flow->sockets = port->sockets != 0;
    flow->mac = port->mac | (u64)port->mac_end << 32;
    flow->channels = channels;
    flow->generation = generation;
    flow->until = on->found.by_key ? 0 : until;
    forget();
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
    tail_call(ctx, program_slots_map, LOOK);
    return pass(ctx);
}

/* All others. */
SECTION("xdp") int look(struct xdp *ctx)
{
    u32 interface = ctx->ingress_ifindex;
    const struct port *port = map_lookup(ports_map, &interface);
    struct scratch *on = map_lookup(scratch_map, zero_value);
    const u8 *data = packet(ctx);

    if (!port || !port->present || !on || data + sizeof(struct ethernet) > packet_end(ctx) || !is_for(data, port))
        return pass(ctx);
    on->is_plain = (u32)read_plain(ctx, &on->plain);
    u32 channels = channels_now(), generation = (u32)node()->generation;
    if (!find_owner(ctx, port, on))
        return pass(ctx);
    if (on->is_plain) {
        struct cut_flow *flow = place_flow(&on->plain, interface);
        return flow ? act_on(ctx, port, on, flow, channels, generation) : pass(ctx);
    }
    if (!on->found.is_channel)
        return pass(ctx);
    if (on->found.cut)
        leave(on->found.cut);
    return punt_channel(ctx, 0, 0);
}
