/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The kernel half's ingress (XDP): takes capsules whose code, neighbour and way are known here to
 * their code, and passes everything else on unchanged: to the user half what is ours, to the Linux
 * stack what is not.
 *
 *     parse ─▶ neighbour ─▶ way ─▶ code ─▶ (tail call) runner.bpf.c ─▶ redirect
 *        └────────┴──────────┴───────┴─▶ AF_XDP socket, or XDP_PASS: AF_PACKET socket and guard, or the Linux stack
 *
 * Nothing is written before the tail call, so whatever is passed on is as it came.
 */
#include "budget.h"
#include "next_hop.h"
#include "parse.h"
#include "sockets.h"

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

/* The number of the neighbour that sent the capsule, plus 1; 0 if it is not known here. */
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

INLINE void describe(struct current *now, const struct capsule *capsule, const struct next_hop *next, u32 window)
{
    copy(now->here, next->own);
    copy(now->context.here, next->own);
    now->context.window_length = window;
    now->context.flags = 0;
    now->context.app_port = be16(capsule->app_port);
    now->bound = be32(capsule->bound);
    now->context.bound = now->bound;
    for (int i = 0; i < 5; i++)
        now->context.reserved[i] = 0;
    copy(now->source, capsule->source.half);
}

/* A jump to the program with this number: fixed in the code, so the kernel makes it a direct one. */
#define JUMP(ctx, number)                                                                                      \
    asm volatile("r1 = %0\n\tr2 = %1\n\tr3 = %2\n\tcall 12"                                                  \
                 :                                                                                             \
                 : "r"(ctx), "r"(programs_map), "i"(number)                                                    \
                 : "r0", "r1", "r2", "r3", "r4", "r5")

/* The codes that came first are those most used: their programs are reached without a look-up. */
INLINE void jump_first(struct xdp *ctx, u32 slot)
{
    if (slot < 5) {
        if (slot < 3) {
            if (slot == 1)
                JUMP(ctx, 1 + PROGRAMS);
            else
                JUMP(ctx, 2 + PROGRAMS);
        } else if (slot == 3)
            JUMP(ctx, 3 + PROGRAMS);
        else
            JUMP(ctx, 4 + PROGRAMS);
    } else if (slot < 7) {
        if (slot == 5)
            JUMP(ctx, 5 + PROGRAMS);
        else
            JUMP(ctx, 6 + PROGRAMS);
    } else if (slot == 7)
        JUMP(ctx, 7 + PROGRAMS);
    else
        JUMP(ctx, 8 + PROGRAMS);
}

/* Whether the domain of a code may have another packet. */
INLINE int admit(struct current *now)
{
    struct usage *usage = map_lookup(usage_map, &now->slot);

    if (!usage)
        return 0;
    now->began = 0;
    if (UNLIKELY(!usage->left)) {
        now->began = ktime_get_ns();
        if (!take_share(now->slot, usage, now->began)) {
            usage->by_budget++;
            return 0;
        }
    }
    usage->left--;
    return 1;
}

/* To the user half, only because others of the flow are there. */
enum { FOLLOW = 16 };

/* Takes a capsule to its code. Comes back if that is not to be here, with what is to become of it. */
INLINE int run(struct xdp *ctx, struct counts *counts)
{
    u8 *data = packet(ctx), *end = packet_end(ctx);
    u32 offset = find_anep(data, end), zero = 0, interface = ctx->ingress_ifindex;

    if (!offset)
        return XDP_PASS;
    const struct anep *anep = (const void *)(data + offset);
    const struct capsule *capsule = (const void *)(anep + 1);
    if ((const u8 *)(capsule + 1) > end)
        return XDP_PASS;
    if (*(const u16 *)anep != be16(0x0100) || anep->type != be16(CAPSULE) || anep->header_words != be16(2) ||
        *(const u16 *)capsule != be16(0x0100))
        return XDP_PASS;
    counts->received++;
    u32 length = be16(anep->length), size = (u32)(end - data);
    struct port *port = map_lookup(ports_map, &interface);
    struct current *now = map_lookup(current_map, &zero);
    struct code *code = find_code(capsule);
    if (!port || !port->present || !is_for(data, port) || !now || !code || !agrees(data, size, capsule, offset, length))
        return XDP_PASS;
    if (length < sizeof(*anep) + sizeof(*capsule) + code->window)
        return XDP_PASS;
    now->context.from = find_near(capsule, interface) - 1;
    struct next_hop *next = find_next(ctx, capsule->source.half, capsule->destination.half, &now->next);
    if (now->context.from == ~0u || !next)
        return XDP_PASS;
    if (UNLIKELY(port->sockets) && must_follow(ctx, port, flow_place(capsule->source.half, capsule->destination.half)))
        return FOLLOW;
    describe(now, capsule, next, code->window);
    now->context.in_port = port->number;
    now->context.payload_length = length - sizeof(*anep) - sizeof(*capsule);
    now->bytes = length - sizeof(*anep);
    now->offset = offset + sizeof(*anep);
    now->slot = code->slot;
    copy(now->to, capsule->destination.half);
    if (!admit(now))
        return XDP_DROP;
    u32 form = offset == BEHIND_UDP - 8 ? 1 : offset == BEHIND_IPV6 - 8 ? 2 : 0;
    if (LIKELY(form == 1) && code->slot <= 8)
        jump_first(ctx, code->slot);
    else
        tail_call(ctx, programs_map, code->slot + form * PROGRAMS);
    return XDP_PASS;
}

SECTION("xdp") int ingress(struct xdp *ctx)
{
    u32 zero = 0;
    struct counts *counts = map_lookup(counts_map, &zero);
    const struct ethernet *ethernet = (const void *)packet(ctx);

    if (!counts || (const u8 *)(ethernet + 1) > packet_end(ctx))
        return XDP_PASS;
    if (UNLIKELY(ethernet->type == be16(PASSED_UP))) {
        counts->dropped_forged++;
        return XDP_DROP;
    }
    int verdict = run(ctx, counts);
    return verdict == XDP_DROP ? XDP_DROP : lift(ctx, 1, verdict == FOLLOW);
}
