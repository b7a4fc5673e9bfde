/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The verdict of code that can send or log. The packet and its children leave as replicas of one frame, if all of them
 * can leave from here. Else the packet is punted with its record, and the node does what is written there. The code
 * runs once in both cases.
 */
#include "act.h"
#include "children.h"

static long (*const broadcast_map)(const void *map, u64 key, u64 flags) = (void *)51;

/* BPF_F_BROADCAST. */
enum { BROADCAST = 1 << 3 };

/* What all sends of a packet have in common. */
struct plan {
    struct current *now;
    const struct cached_flow *cached;
    struct record *record;
    u32 at, bytes;
    u64 links;
};

/* Says how a send leaves; 0 if that cannot be from here. */
INLINE int plan_send(struct xdp *ctx, struct plan *plan, u32 i)
{
    u32 at = plan->at * SENDS + i, form = plan->now->offset;
    struct send *send = map_lookup(sends_map, &at);

    if (!send || i >= SENDS)
        return 0;
    const u64 *from = send->window, *to = send->window + 2;
    if (!is_equal(from, plan->now->source) && !is_equal(from, plan->cached->hop.own))
        return 0;
    if (is_v4(from) != (form < BEHIND_IPV6) || is_v4(to) != (form < BEHIND_IPV6))
        return 0;
    const struct hop *hop = &plan->cached->hop;
    if (!is_equal(to, plan->cached->to)) {
        const struct next_hop *next = find_next(ctx, from, to);
        if (!next)
            return 0;
        hop = &next->hop;
    }
    u32 interface = hop->interface;
    const struct port *port = map_lookup(ports_map, &interface);
    if (!port || port->number >= LINKS || plan->bytes > hop->mtu)
        return 0;
    send->hop = *hop;
    plan->record->interfaces[i] = (u16)interface;
    plan->links += 1ull << (port->number * LINK_BITS);
    return 1;
}

/* Whether all sends leave from here: how many there are; else 0. */
INLINE u32 plan_all(struct xdp *ctx, struct plan *plan, struct window *own)
{
    const struct current *now = plan->now;
    u32 interface = ctx->ingress_ifindex, sends = plan->record->sends;
    const struct port *port = map_lookup(ports_map, &interface);
    u64 length = (u64)(packet_end(ctx) - packet(ctx));

    if (plan->record->lines || !port || !port->copies || length > COPIED_MAX || xdp_get_buff_len(ctx) != length)
        return 0;
    if (now->verdict == VERDICT_FORWARD) {
        u32 at = plan->at * SENDS + sends;
        own->send.bound = now->bound;
        if (!now->bound || map_update(sends_map, &at, own, 0))
            return 0;
        sends++;
    } else if (now->verdict != VERDICT_DROP)
        return 0;
#pragma clang loop unroll(disable)
    for (u32 i = 0; i < SENDS; i++) {
        if (i >= sends)
            break;
        if (!plan_send(ctx, plan, i))
            return 0;
    }
    return sends;
}

/* Lets the copies leave. */
INLINE int leave(struct xdp *ctx, const struct plan *plan, const void *set, u32 sends, struct window *own)
{
    struct record *record = plan->record;
    u8 *data = packet(ctx);

    if (data + sizeof(struct ethernet) > packet_end(ctx))
        return XDP_ABORTED;
    record->slot = plan->now->slot;
    record->form = (u16)plan->now->offset;
    record->bytes = (u16)(plan->now->window + ADDRESSES);
    record->since = jiffies();
    record->left = (1u << (sends & 31)) - 1;
    mark(data, plan->at, record->number);
    prepare(own);
    return (int)broadcast_map(set, 0, BROADCAST);
}

INLINE int finish_family(struct xdp *ctx, struct plan *plan, struct window *own)
{
    struct current *now = plan->now;
    u32 verdict = now->verdict, slot = now->slot, children = plan->record->sends;
    struct usage *usage = usage_of(slot);
    struct replicas *replicas = map_lookup(replicas_map, &slot);

    if (!usage || !replicas)
        return XDP_ABORTED;
    if (verdict > VERDICT_FORWARD && (verdict & 0xffff) != VERDICT_DELIVER && !plan->record->lines) {
        /* What a failed run has sent was never sent. */
        plan->record->sends = 0;
        usage->by_verdict++;
        now->dropped++;
        return XDP_DROP;
    }
    plan->bytes = now->bytes + (now->offset & 127) - (u32)sizeof(struct ethernet);
    u32 sends = plan_all(ctx, plan, own);
    u64 links = sends ? plan->links : 0;
    const void *set = sends ? map_lookup(links_map, &links) : 0;
    if (set) {
        replicas->children += children;
        replicas->packets++;
        usage->by_code += verdict == VERDICT_DROP;
        now->made += children;
        now->redirected += sends;
        now->dropped += verdict == VERDICT_DROP;
        return leave(ctx, plan, set, sends, own);
    }
    usage->passed_up++;
    replicas->up++;
    plan->record->since = jiffies();
    plan->record->left = UP;
    prepare(own);
    return raised(now, pass_up(ctx, now, plan->cached, verdict, plan->record, plan->at, links));
}

SECTION("xdp") int family(struct xdp *ctx)
{
    struct current *now = map_lookup(current_map, zero_value);
    struct window *own = map_lookup(window_map, zero_value);

    if (!now || !own)
        return XDP_ABORTED;
    struct cached_flow *cached = map_lookup(flow_cache_map, &now->cached_flow);
    struct plan plan = {now, cached, 0, own->record, 0, 0};
    plan.record = map_lookup(records_map, &plan.at);
    if (!cached || !plan.record)
        return XDP_ABORTED;
    u32 bytes = now->window + ADDRESSES;
    if (bytes > WINDOW_BYTES || xdp_store_bytes(ctx, (now->offset & 127) + LOCKED, own->send.window, bytes))
        return XDP_ABORTED;
    if (UNLIKELY(plan.record->sends || plan.record->lines))
        return finish_family(ctx, &plan, own);
    /* Its verdict is all: as with other code. */
    tail_call(ctx, stations_map, ACT);
    return XDP_ABORTED;
}
