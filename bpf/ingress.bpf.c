/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The kernel half's ingress, the first program for every frame of a port (XDP). A capsule of a cached flow goes to its
 * code. A frame that is not ours goes to the Linux stack as it came. All else gets a closer look.
 *
 *     form ─▶ code, flow ─▶ headers ─▶ budget ─▶ runner.bpf.c, and back ─▶ redirect
 *       │       └────────┴─▶ (tail call) learn.bpf.c  └─▶ (tail call) another station
 *       └─▶ Linux stack
 *
 * Nothing is written before code runs, so a frame that is passed on without a run is as it came.
 */
#include "act.h"
#include "enter.h"

/* Whether others of the flow are in the user half. */
INLINE int must_wait(struct xdp *ctx, const struct capsule *capsule)
{
    u32 interface = ctx->ingress_ifindex;
    const struct port *port = map_lookup(ports_map, &interface);

    return !port || must_follow(ctx, port, flow_place(capsule->source.half, capsule->destination.half));
}

/* PUNT, if the capsule is not to run before a closer look. */
INLINE int try_cached(struct xdp *ctx, struct current *now, u32 form)
{
    const u8 *data = packet(ctx), *end = packet_end(ctx);
    const struct capsule *capsule = (const void *)(data + form);

    if ((const u8 *)(capsule + 1) > end)
        return PUNT;
    const struct code *code = find_code(capsule);
    if (UNLIKELY(!code))
        return PUNT;
    const struct neighbour *neighbour;
    const struct cached_flow *cached = find_cached(capsule, ctx->ingress_ifindex, form, &now->cached_flow, &neighbour);
    if (UNLIKELY(!cached || (neighbour->mac ^ *(const u64 *)data) << 16))
        return PUNT;
    if (UNLIKELY(be32(capsule->bound) > neighbour->bound_max))
        return PUNT;
    if (UNLIKELY(neighbour->mac >> 48) && must_wait(ctx, capsule))
        return PUNT;
    u32 length = anep_length(data, (u32)(end - data), form);
    if (UNLIKELY(length < sizeof(struct anep) + sizeof(*capsule) + code->window))
        return PUNT;
    int done = enter(ctx, now, capsule, code, cached, neighbour, length, form);
    if (UNLIKELY(done == PUNT))
        return PUNT;
    now->received++;
    if (UNLIKELY(done != RAN))
        return done;
    /* A sum over all of a packet is left to the program that has it anyway: to verify that loop takes most of the time of loading it. */
    if (LIKELY(form != BEHIND_UDP6 && now->next == ACT)) {
        done = finish_cached(ctx, now, cached, form);
        if (LIKELY(done))
            return done;
    }
    return go_on(ctx, now);
}

INLINE int ingress_of(struct xdp *ctx, u32 form)
{
    struct current *now = map_lookup(current_map, zero_value);
    int done = PUNT;

    if (!now)
        return XDP_PASS;
    if (LIKELY(form == BEHIND_UDP))
        done = try_cached(ctx, now, BEHIND_UDP);
    else if (form == BEHIND_UDP6)
        done = try_cached(ctx, now, BEHIND_UDP6);
    else if (form == BEHIND_IPV4)
        done = try_cached(ctx, now, BEHIND_IPV4);
    else if (form == BEHIND_IPV6)
        done = try_cached(ctx, now, BEHIND_IPV6);
    if (LIKELY(done != PUNT))
        return done;
    tail_call(ctx, stations_map, LEARN);
    return XDP_PASS;
}

SECTION("xdp") int ingress(struct xdp *ctx)
{
    const u8 *data = packet(ctx), *end = packet_end(ctx);
    const struct ethernet *ethernet = (const void *)data;
    u32 form = form_of(data, end);

    if (LIKELY(form))
        return ingress_of(ctx, form);
    /* Frames that pretend to come from here, IP headers with options, behind which there may be a capsule, and frames so short
     * that form_of has not looked. */
    if (UNLIKELY(data + BEHIND_IPV4 > end || ethernet->type == be16(PASSED_UP)))
        tail_call(ctx, stations_map, LEARN);
    else if (LIKELY(ethernet->type == be16(IPV4))) {
        if (UNLIKELY(data[sizeof(*ethernet)] != 0x45))
            tail_call(ctx, stations_map, LEARN);
    } else if (UNLIKELY(ethernet->type == be16(IPV6) && data + BEHIND_IPV6 > end))
        tail_call(ctx, stations_map, LEARN);
    /* A jump that is not there while there are no channels to look for. */
    tail_call(ctx, program_slots_map, CUT);
    return pass(ctx);
}
