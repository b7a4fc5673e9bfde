/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Makes each replica of a frame the packet that its record says. Example: of three replicas of a multicast capsule
 * each gets the destination of one child. It stands behind the device maps, at every interface of capsules, while
 * there is code that sends.
 *
 * Other frames pass unchanged. The kernel has one such program for all frames that wait for an interface, so it stands
 * behind all device maps or none.
 */
#include "act.h"
#include "children.h"

/* The send that a copy at this interface is, as its place among those of its record. */
INLINE u32 take(struct record *record, u32 interface)
{
#pragma clang loop unroll(disable)
    for (u32 i = 0; i < SENDS; i++) {
        if (record->left & 1u << i && record->interfaces[i] == interface) {
            record->left &= ~(1u << i);
            return i;
        }
    }
    return SENDS;
}

INLINE int dress(struct xdp *ctx, const struct record *record, const struct send *send)
{
    u32 form = record->form & 127, bytes = record->bytes;

    if (bytes < 32 || bytes > WINDOW_BYTES || xdp_store_bytes(ctx, form + LOCKED, send->window, bytes))
        return XDP_DROP;
    u8 *data = packet(ctx);
    struct capsule *capsule = (void *)(data + form);
    if ((u8 *)(capsule + 1) > packet_end(ctx) || data + BEHIND_UDP6 > packet_end(ctx))
        return XDP_DROP;
    u64 from[2], to[2];
    copy(from, send->window);
    copy(to, send->window + 2);
    ((struct ethernet *)data)->type = form < BEHIND_IPV6 ? be16(IPV4) : be16(IPV6);
    address(data, packet_end(ctx), capsule, form, send->bound, &send->hop, from, to);
    return XDP_PASS;
}

SECTION("xdp/devmap") int egress(struct xdp *ctx)
{
    u8 *data = packet(ctx);
    u32 zero = 0;

    if (data + sizeof(struct ethernet) > packet_end(ctx) || LIKELY(((struct ethernet *)data)->type != be16(COPIED)))
        return XDP_PASS;
    u64 number = *(u64 *)data;
    u32 at = *(u32 *)(data + 8);
    struct record *record = map_lookup(records_map, &at);
    if (record && record->number == number) {
        u32 send = take(record, ctx->egress_ifindex);
        at = at * SENDS + send;
        struct send *its = send < SENDS ? map_lookup(sends_map, &at) : 0;
        if (its && dress(ctx, record, its) == XDP_PASS)
            return XDP_PASS;
    }
    struct replicas *replicas = map_lookup(replicas_map, &zero);
    if (replicas)
        replicas->lost++;
    return XDP_DROP;
}
