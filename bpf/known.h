/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The flow cache: neighbour and next hop of a flow, found for its first packet and used by the others. Whatever could
 * change an entry raises the generation, or is noticed within TICKS, as with next hops.
 *
 *     capsule ─┬─▶ destination, previous node ─▶ flow cache ─▶ neighbour
 *              └─▶ name of the code ─▶ code ─▶ usage, program
 *
 * With many flows and codes each arrow is a wait for memory. The two rows do not depend on each other, so a processor
 * waits for both at once.
 */
#ifndef ANODE_KNOWN_H
#define ANODE_KNOWN_H

#include "next_hop.h"

/* The first place where a code can stand. */
INLINE u32 code_home(const u64 name[4]) { return (u32)name[0] & (CODES - 1); }

/* The code of a capsule, if it runs here. */
INLINE const struct code *find_code(const struct capsule *capsule)
{
    const u64 *name = capsule->code;
    u32 at = code_home(name);

#pragma clang loop unroll(disable)
    for (int probe = 0; probe < PROBES; probe++) {
        const struct code *code = map_lookup(codes_map, &at);
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

/* This CPU's line of what became of a code's packets. */
INLINE struct usage *usage_of(u32 slot)
{
    u32 at = smp_processor_id() * PROGRAMS + slot;
    return map_lookup(usage_map, &at);
}

/* What the two places of a capsule's flow are taken from. The highest bits of a product depend on all of a number, its lower ones
 * on the number's lower ones alone: there an address's last bytes must be, in which hosts of one network differ. */
INLINE u64 mixed(const struct capsule *capsule)
{
    u64 to = __builtin_bswap64(capsule->destination.half[0] ^ capsule->destination.half[1]);
    u64 from = capsule->previous.half[0] ^ capsule->previous.half[1];

    return to * 0x9e3779b97f4a7c15ull ^ from * 0xd6e8feb86659fd93ull;
}

/* The two places are far from each other, so that a flow that finds one taken by turns with another flow may find the other free; a flow
 * that gives way goes on to its own other place. So all flows find places in the end, as long as they are not half as many. */
INLINE u32 own_place(u32 at)
{
    u32 known = node()->known;
    return smp_processor_id() * known + (at & (known - 1));
}

INLINE u32 first_place(u64 mixed) { return own_place((u32)(mixed >> 48)); }
INLINE u32 second_place(u64 mixed) { return own_place((u32)(mixed >> 32)); }

INLINE int is_current(const struct known *known)
{
    return known->generation == (u32)node()->generation && (long long)(known->until - jiffies()) > 0;
}

/* The neighbour that a capsule comes from, if this is what is known of its flow. */
INLINE struct near *is_known(const struct known *known, const struct capsule *capsule, u32 interface, u32 form)
{
    u32 at = known->near;
    struct near *near = map_lookup(near_map, &at);

    return near && near->number && is_equal(known->to, capsule->destination.half) && known->form == form &&
                   is_equal(near->addr, capsule->previous.half) && near->interface == interface
               ? near
               : 0;
}

/* What is known of a capsule's flow, where that stands, and the neighbour; or nothing. */
INLINE struct known *find_known(const struct capsule *capsule, u32 interface, u32 form, u32 *at, const struct near **near)
{
    u64 places = mixed(capsule);
    struct known *known;

    *at = first_place(places);
    known = map_lookup(known_map, at);
    if (!known)
        return 0;
    *near = is_known(known, capsule, interface, form);
    if (LIKELY(*near && is_current(known)))
        return known;
    *at = second_place(places);
    known = map_lookup(known_map, at);
    if (!known)
        return 0;
    *near = is_known(known, capsule, interface, form);
    return *near && is_current(known) ? known : 0;
}

/* The place for what is known of a capsule's flow: where it was, one that nobody needs any more, or one of the two by chance: were it the
 * older one, two flows that share their places could displace each other for ever. */
INLINE struct known *place_known(const struct capsule *capsule, u32 interface, u32 form, u32 *at)
{
    u64 places = mixed(capsule);
    u32 first = first_place(places), second = second_place(places);
    struct known *known = map_lookup(known_map, &first), *other = map_lookup(known_map, &second);

    if (!known || !other)
        return 0;
    *at = first;
    if (is_known(known, capsule, interface, form))
        return known;
    if (is_known(other, capsule, interface, form) || (is_current(known) && (!is_current(other) || (get_prandom_u32() & 1)))) {
        *at = second;
        return other;
    }
    return known;
}

#endif
