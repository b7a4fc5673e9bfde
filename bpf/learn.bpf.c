/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Looks closely at what the ingress does not know: a capsule whose code, neighbour and way are known here begins a known flow
 * and goes to its code; what is ours goes to the user half as it came.
 *
 *     headers ─▶ code ─▶ neighbour ─▶ way ─▶ order ─▶ budget ─▶ runner.bpf.c, and back ─▶ (tail call) a station
 *        └────────┴─────────┴─────────┴───────┴─▶ AF_XDP socket, or XDP_PASS: AF_PACKET socket, or the Linux stack
 */
#include "enter.h"

INLINE struct code *find_code(const struct capsule *capsule)
{
    const u64 *name = capsule->code;
    u32 at = (u32)name[0] & (CODES - 1);

#pragma clang loop unroll(disable)
    for (int probe = 0; probe < PROBES; probe++) {
        struct code *code = map_lookup(codes_map, &at);
        if (!code)
            return 0;
        if (LIKELY(is_equal(code->name, name) && is_equal(code->name + 2, name + 2) && code->slot))
            return code;
        if (!code->passed)
            return 0;
        at = (at + 1) & (CODES - 1);
    }
    return 0;
}

/* The number of the neighbour that sent the capsule, plus 1; 0 if it is not known here. It has been heard: known flows are looked
 * at anew every TICKS, so a neighbour whose capsules come is heard as often. */
INLINE u32 find_near(const struct capsule *capsule, u32 interface)
{
    u32 at = place(capsule->previous.half, interface, NEAR);
    struct near *near = map_lookup(near_map, &at);

    if (!near || !is_equal(near->addr, capsule->previous.half) || near->interface != interface)
        return 0;
    if (UNLIKELY(!near->heard))
        near->heard = 1;
    return near->number;
}

/* Writes down who and what a flow is. */
INLINE void learn_flow(const struct port *port, const struct capsule *capsule, const struct code *code, u32 near, u32 form,
                       struct known *known)
{
    copy(known->code, capsule->code);
    copy(known->code + 2, capsule->code + 2);
    copy(known->previous, capsule->previous.half);
    copy(known->to, capsule->destination.half);
    known->from = (u16)(near - 1);
    known->slot = (u16)code->slot;
    known->window = code->window;
    known->in_port = (u16)port->number;
    known->form = (u8)form;
    known->sockets = port->sockets != 0;
    known->mac = port->mac | (u64)port->mac_end << 32;
}

/* What is known of a capsule's flow, found out as far as it has to be. Code that does not run here takes nobody's place. */
INLINE struct known *find_out(struct xdp *ctx, const struct port *port, const struct capsule *capsule, u32 form, u32 *at)
{
    /* Changes that come meanwhile make the entry useless at once. */
    u32 interface = ctx->ingress_ifindex, generation = (u32)node()->generation;
    u32 near = find_near(capsule, interface);
    struct known *known = near ? place_known(capsule, interface, form, at) : 0;

    if (!known)
        return 0;
    /* Only time has passed: the way alone may be another. */
    if (!is_known(known, capsule, interface, form) || known->generation != generation) {
        const struct code *code = find_code(capsule);
        if (!code)
            return 0;
        /* Nobody must believe it while it changes. */
        known->until = known->generation = 0;
        known->interface = (u16)interface;
        learn_flow(port, capsule, code, near, form, known);
    }
    struct next_hop *next = find_next(ctx, capsule->source.half, capsule->destination.half);
    if (next) {
        known->hop = next->hop;
        known->until = next->until;
    } else if (is_own(capsule->destination.half)) {
        /* The code runs here too; where it goes is for the node to say, unless the code sends it elsewhere. */
        known->hop = (struct hop){.mtu = HERE};
        copy(known->hop.own, capsule->destination.half);
        known->until = jiffies() + TICKS;
    } else {
        known->until = 0;
        return 0;
    }
    known->generation = generation;
    return known;
}

/* Takes a capsule to its code, if that is to be here. */
INLINE int run(struct xdp *ctx, struct current *now, u32 form)
{
    u8 *data = packet(ctx), *end = packet_end(ctx);
    const struct capsule *capsule = (const void *)(data + form);
    u32 interface = ctx->ingress_ifindex;

    if ((const u8 *)(capsule + 1) > end)
        return LIFT;
    struct port *port = map_lookup(ports_map, &interface);
    u32 length = anep_length(data, (u32)xdp_get_buff_len(ctx), form);
    if (!port || !port->present || !is_for(data, port) || !length ||
        is_v4(capsule->destination.half) != (form < BEHIND_IPV6))
        return LIFT;
    now->received++;
    struct known *known = find_out(ctx, port, capsule, form, &now->known);
    if (!known || length < sizeof(struct anep) + sizeof(*capsule) + known->window)
        return LIFT;
    /* Of a frame in several buffers the first has all that is looked at, but for a sum over all of it. */
    u32 first = (u32)(end - data);
    if (first < form + sizeof(*capsule) + known->window || (form == BEHIND_UDP6 && first < form - sizeof(struct anep) + length))
        return LIFT;
    if (UNLIKELY(port->sockets) && must_follow(ctx, port, flow_place(capsule->source.half, capsule->destination.half)))
        return FOLLOW;
    return enter(ctx, now, capsule, known, length, form);
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
