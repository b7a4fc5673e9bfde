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

/* The neighbour that sent the capsule; nothing if it is not known here. It has been heard: cached flows are looked
 * at anew every TICKS, so a neighbour whose capsules come is heard as often. */
INLINE struct neighbour *find_neighbour(const struct port *port, const struct capsule *capsule, u32 interface, u32 *at)
{
    *at = place(capsule->previous.half, interface, NEIGHBOUR_PLACES);
    struct neighbour *neighbour = map_lookup(neighbour_places_map, at);

    if (!neighbour || !is_equal(neighbour->addr, capsule->previous.half) || neighbour->interface != interface || !neighbour->number)
        return 0;
    if (UNLIKELY(!neighbour->heard))
        neighbour->heard = 1;
    neighbour->port = port->number;
    neighbour->bound_max = port->bound_max;
    neighbour->mac = port->mac | (u64)port->mac_end << 32 | (u64)(port->sockets != 0) << 48;
    return neighbour;
}

/* The entry of a flow from a neighbour, with the next hop looked up if need be. */
INLINE struct cached_flow *find_out(struct xdp *ctx, const struct capsule *capsule, u32 neighbour_at, u32 form, u32 *at)
{
    /* Changes that come meanwhile make the entry useless at once. */
    u32 interface = ctx->ingress_ifindex, generation = (u32)node()->generation;
    struct cached_flow *cached = place_cached(capsule, interface, form, at);

    if (!cached)
        return 0;
    /* Nobody must believe it while it changes. */
    cached->until = 0;
    copy(cached->to, capsule->destination.half);
    cached->neighbour = (u16)neighbour_at;
    cached->form = (u16)form;
    struct next_hop *next = find_next(ctx, capsule->source.half, capsule->destination.half);
    u64 until;
    if (next) {
        cached->hop = next->hop;
        until = next->until;
    } else if (is_own(capsule->destination.half)) {
        /* The code runs here too; where it goes is for the node to say, unless the code sends it elsewhere. */
        cached->hop = (struct hop){.mtu = HERE};
        copy(cached->hop.own, capsule->destination.half);
        until = jiffies() + TICKS;
    } else {
        return 0;
    }
    cached->generation = generation;
    cached->until = until;
    return cached;
}

/* Takes a capsule of so many bytes to its code, if that is to be here. */
INLINE int run_counted(struct xdp *ctx, struct current *now, const struct port *port, u32 form, u32 length)
{
    u8 *data = packet(ctx), *end = packet_end(ctx);
    const struct capsule *capsule = (const void *)(data + form);
    u32 interface = ctx->ingress_ifindex;

    if ((const u8 *)(capsule + 1) > end)
        return PUNT;
    u32 neighbour_at;
    const struct neighbour *neighbour = find_neighbour(port, capsule, interface, &neighbour_at);
    const struct code *code = neighbour && be32(capsule->bound) <= port->bound_max ? find_code(capsule) : 0;
    /* Code that does not run here takes nobody's place. */
    const struct cached_flow *cached = code ? find_out(ctx, capsule, neighbour_at, form, &now->cached_flow) : 0;
    if (!cached || length < sizeof(struct anep) + sizeof(*capsule) + code->window)
        return PUNT;
    /* Of a frame in several buffers the first has all that is looked at, but for a sum over all of it. */
    u32 first = (u32)(end - data);
    if (first < form + sizeof(*capsule) + code->window || (form == BEHIND_UDP6 && first < form - sizeof(struct anep) + length))
        return PUNT;
    if (UNLIKELY(port->sockets) && must_follow(ctx, port, flow_place(capsule->source.half, capsule->destination.half)))
        return FOLLOW;
    return enter(ctx, now, capsule, code, cached, neighbour, length, form);
}

/* The same for a capsule that is for this node, which is counted. */
INLINE int run_below(struct xdp *ctx, struct current *now, const struct port *port, u32 form)
{
    const u8 *data = packet(ctx);
    const struct capsule *capsule = (const void *)(data + form);

    if ((const u8 *)(capsule + 1) > packet_end(ctx))
        return PUNT;
    u32 length = anep_length(data, (u32)xdp_get_buff_len(ctx), form);
    if (!length || is_v4(capsule->destination.half) != (form < BEHIND_IPV6))
        return PUNT;
    now->received++;
    int done = run_counted(ctx, now, port, form, length);
    now->punted += done == PUNT || done == FOLLOW;
    return done;
}

/* The same below the ceiling of its port, which pays for what goes up too. */
INLINE int run(struct xdp *ctx, struct current *now, u32 form)
{
    u32 interface = ctx->ingress_ifindex;
    const struct port *port = map_lookup(ports_map, &interface);

    if (!port || !port->present || packet(ctx) + sizeof(struct ethernet) > packet_end(ctx) || !is_for(packet(ctx), port))
        return PUNT;
    struct ceiling *ceiling = ceiling_of(port->number);
    if (!is_below(ceiling))
        return XDP_DROP;
    int verdict = run_below(ctx, now, port, form);
    if (verdict >= PUNT && verdict != RAN)
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
        return PUNT;
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
    if (verdict >= PUNT)
        verdict = punt(ctx, 1, verdict == FOLLOW);
    if (verdict != XDP_PASS)
        return verdict;
    /* What is no capsule, though the ingress could not see that, may be a channel's. */
    tail_call(ctx, program_slots_map, CUT);
    return pass(ctx);
}
