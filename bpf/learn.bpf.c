/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The closer look at a frame that the ingress does not find in the flow cache. If code, neighbour and way of a capsule
 * are known here, the capsule gets an entry in the cache and goes to its code. All else that is ours is punted as it
 * came.
 *
 *     headers ─▶ code ─▶ neighbour ─▶ way ─▶ order ─▶ budget ─▶ runner.bpf.c, and back ─▶ (tail call) a station
 *        └────────┴─────────┴─────────┴───────┴─▶ AF_XDP socket, or XDP_PASS: AF_PACKET socket, or the Linux stack
 */
#include "enter.h"

/* The neighbour that sent the capsule; nothing if it is not known here. It has been heard: known flows are looked
 * at anew every TICKS, so a neighbour whose capsules come is heard as often. */
INLINE struct near *find_near(const struct port *port, const struct capsule *capsule, u32 interface, u32 *at)
{
    *at = place(capsule->previous.half, interface, NEAR);
    struct near *near = map_lookup(near_map, at);

    if (!near || !is_equal(near->addr, capsule->previous.half) || near->interface != interface || !near->number)
        return 0;
    if (UNLIKELY(!near->heard))
        near->heard = 1;
    near->port = port->number;
    near->bound_max = port->bound_max;
    near->mac = port->mac | (u64)port->mac_end << 32 | (u64)(port->sockets != 0) << 48;
    return near;
}

/* What is known of the flow of a capsule of a neighbour, found out as far as it has to be. */
INLINE struct known *find_out(struct xdp *ctx, const struct capsule *capsule, u32 near_at, u32 form, u32 *at)
{
    /* Changes that come meanwhile make the entry useless at once. */
    u32 interface = ctx->ingress_ifindex, generation = (u32)node()->generation;
    struct known *known = place_known(capsule, interface, form, at);

    if (!known)
        return 0;
    /* Nobody must believe it while it changes. */
    known->until = 0;
    copy(known->to, capsule->destination.half);
    known->near = (u16)near_at;
    known->form = (u16)form;
    struct next_hop *next = find_next(ctx, capsule->source.half, capsule->destination.half);
    u64 until;
    if (next) {
        known->hop = next->hop;
        until = next->until;
    } else if (is_own(capsule->destination.half)) {
        /* The code runs here too; where it goes is for the node to say, unless the code sends it elsewhere. */
        known->hop = (struct hop){.mtu = HERE};
        copy(known->hop.own, capsule->destination.half);
        until = jiffies() + TICKS;
    } else {
        return 0;
    }
    known->generation = generation;
    known->until = until;
    return known;
}

/* Takes a capsule of so many bytes to its code, if that is to be here. */
INLINE int run_counted(struct xdp *ctx, struct current *now, const struct port *port, u32 form, u32 length)
{
    u8 *data = packet(ctx), *end = packet_end(ctx);
    const struct capsule *capsule = (const void *)(data + form);
    u32 interface = ctx->ingress_ifindex;

    if ((const u8 *)(capsule + 1) > end)
        return LIFT;
    u32 near_at;
    const struct near *near = find_near(port, capsule, interface, &near_at);
    const struct code *code = near && be32(capsule->bound) <= port->bound_max ? find_code(capsule) : 0;
    /* Code that does not run here takes nobody's place. */
    const struct known *known = code ? find_out(ctx, capsule, near_at, form, &now->known) : 0;
    if (!known || length < sizeof(struct anep) + sizeof(*capsule) + code->window)
        return LIFT;
    /* Of a frame in several buffers the first has all that is looked at, but for a sum over all of it. */
    u32 first = (u32)(end - data);
    if (first < form + sizeof(*capsule) + code->window || (form == BEHIND_UDP6 && first < form - sizeof(struct anep) + length))
        return LIFT;
    if (UNLIKELY(port->sockets) && must_follow(ctx, port, flow_place(capsule->source.half, capsule->destination.half)))
        return FOLLOW;
    return enter(ctx, now, capsule, code, known, near, length, form);
}

/* The same for a capsule that is for this node, which is counted. */
INLINE int run_below(struct xdp *ctx, struct current *now, const struct port *port, u32 form)
{
    const u8 *data = packet(ctx);
    const struct capsule *capsule = (const void *)(data + form);

    if ((const u8 *)(capsule + 1) > packet_end(ctx))
        return LIFT;
    u32 length = anep_length(data, (u32)xdp_get_buff_len(ctx), form);
    if (!length || is_v4(capsule->destination.half) != (form < BEHIND_IPV6))
        return LIFT;
    now->received++;
    int done = run_counted(ctx, now, port, form, length);
    now->lifted += done == LIFT || done == FOLLOW;
    return done;
}

/* The same below the ceiling of its port, which pays for what goes up too. */
INLINE int run(struct xdp *ctx, struct current *now, u32 form)
{
    u32 interface = ctx->ingress_ifindex;
    const struct port *port = map_lookup(ports_map, &interface);

    if (!port || !port->present || packet(ctx) + sizeof(struct ethernet) > packet_end(ctx) || !is_for(packet(ctx), port))
        return LIFT;
    struct ceiling *ceiling = ceiling_of(port->number);
    if (!is_below(ceiling))
        return XDP_DROP;
    int verdict = run_below(ctx, now, port, form);
    if (verdict >= LIFT && verdict != RAN)
        pay(ceiling, RAISED);
    return verdict;
}

INLINE int run_form(struct xdp *ctx, struct current *now)
{
    switch (form_of(packet(ctx), packet_end(ctx))) {
    case BEHIND_UDP:
        return run(ctx, now, BEHIND_UDP);
    case BEHIND_UDP6:
        return run(ctx, now, BEHIND_UDP6);
    case BEHIND_IPV4:
        return run(ctx, now, BEHIND_IPV4);
    case BEHIND_IPV6:
        return run(ctx, now, BEHIND_IPV6);
    default:
        return LIFT;
    }
}

SECTION("xdp") int learn(struct xdp *ctx)
{
    struct current *now = map_lookup(current_map, zero_value);

    if (!now)
        return XDP_PASS;
    int verdict = run_form(ctx, now);
    if (verdict == RAN)
        return go_on(ctx, now);
    if (verdict >= LIFT)
        verdict = lift(ctx, 1, verdict == FOLLOW);
    /* What is no capsule, though the ingress could not see that, may be a channel's. */
    if (verdict == XDP_PASS)
        tail_call(ctx, doors_map, CUT);
    return verdict;
}
