/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Flows that are known: what was found out about a flow's first packet, so that the others cost one look-up. Whatever could
 * change it raises the generation or is heard of within TICKS, as with next hops.
 */
#ifndef ANODE_KNOWN_H
#define ANODE_KNOWN_H

#include "next_hop.h"

/* The first of the two places of a capsule's flow. The highest bits of a product depend on all of a number, its lower ones on the
 * number's lower ones alone: there an address's last octets must be, in which hosts of one network differ. */
INLINE u32 place_known(const struct capsule *capsule, u32 entries)
{
    u64 to = __builtin_bswap64(capsule->destination.half[0] ^ capsule->destination.half[1]);
    u64 from = capsule->previous.half[0] ^ capsule->previous.half[1] ^ capsule->code[0];
    u64 mixed = to * 0x9e3779b97f4a7c15ull ^ from * 0xd6e8feb86659fd93ull;

    return smp_processor_id() * entries + ((u32)(mixed >> 48) & (entries - 2));
}

INLINE int is_known(const struct known *known, const struct capsule *capsule, u32 interface, u32 form)
{
    return is_equal(known->to, capsule->destination.half) && is_equal(known->code, capsule->code) &&
           is_equal(known->code + 2, capsule->code + 2) && is_equal(known->previous, capsule->previous.half) &&
           known->interface == interface && known->form == form;
}

INLINE int is_current(const struct known *known)
{
    return known->generation == (u32)node()->generation && (long long)(known->until - jiffies()) > 0;
}

/* What is known of a capsule's flow, and where that stands; or nothing. */
INLINE struct known *find_known(const struct capsule *capsule, u32 interface, u32 form, u32 *at)
{
    u32 first = place_known(capsule, node()->known);
    struct known *known;

    *at = first;
    known = map_lookup(known_map, at);
    if (known && LIKELY(is_known(known, capsule, interface, form) && is_current(known)))
        return known;
    *at = first + 1;
    known = map_lookup(known_map, at);
    return known && is_known(known, capsule, interface, form) && is_current(known) ? known : 0;
}

/* The older of the two places of a capsule's flow, for a new entry; nobody believes what it says until it is whole. */
INLINE struct known *renew_known(const struct capsule *capsule, u32 *at)
{
    u32 first = place_known(capsule, node()->known), second = first + 1;
    struct known *known = map_lookup(known_map, &first), *other = map_lookup(known_map, &second);

    if (!known || !other)
        return 0;
    *at = first;
    if ((long long)(other->until - known->until) < 0) {
        known = other;
        *at = second;
    }
    known->until = 0;
    return known;
}

#endif
