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
#ifndef ANODE_FLOW_CACHE_H
#define ANODE_FLOW_CACHE_H

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
    u32 flows = node()->cached_flows;
    return smp_processor_id() * flows + (at & (flows - 1));
}

INLINE u32 first_place(u64 mixed) { return own_place((u32)(mixed >> 48)); }
INLINE u32 second_place(u64 mixed) { return own_place((u32)(mixed >> 32)); }

INLINE int is_current(const struct cached_flow *cached)
{
    return cached->generation == (u32)node()->generation && (long long)(cached->until - jiffies()) > 0;
}

/* The neighbour that a capsule comes from, if this is its flow's entry. */
INLINE struct neighbour *is_cached(const struct cached_flow *cached, const struct capsule *capsule, u32 interface, u32 form)
{
    u32 at = cached->neighbour;
    struct neighbour *neighbour = map_lookup(neighbour_places_map, &at);

    return neighbour && neighbour->number && is_equal(cached->to, capsule->destination.half) && cached->form == form &&
                   is_equal(neighbour->addr, capsule->previous.half) && neighbour->interface == interface
               ? neighbour
               : 0;
}

/* The entry of a capsule's flow, its place, and the neighbour; or nothing. */
INLINE struct cached_flow *find_cached(const struct capsule *capsule, u32 interface, u32 form, u32 *at, const struct neighbour **neighbour)
{
    u64 places = mixed(capsule);
    struct cached_flow *cached;

    *at = first_place(places);
    cached = map_lookup(flow_cache_map, at);
    if (!cached)
        return 0;
    *neighbour = is_cached(cached, capsule, interface, form);
    if (LIKELY(*neighbour && is_current(cached)))
        return cached;
    *at = second_place(places);
    cached = map_lookup(flow_cache_map, at);
    if (!cached)
        return 0;
    *neighbour = is_cached(cached, capsule, interface, form);
    return *neighbour && is_current(cached) ? cached : 0;
}

/* The place for the entry of a capsule's flow: where it was, one that nobody needs any more, or one of the two by chance: were it the
 * older one, two flows that share their places could displace each other for ever. */
INLINE struct cached_flow *place_cached(const struct capsule *capsule, u32 interface, u32 form, u32 *at)
{
    u64 places = mixed(capsule);
    u32 first = first_place(places), second = second_place(places);
    struct cached_flow *cached = map_lookup(flow_cache_map, &first), *other = map_lookup(flow_cache_map, &second);

    if (!cached || !other)
        return 0;
    *at = first;
    if (is_cached(cached, capsule, interface, form))
        return cached;
    if (is_cached(other, capsule, interface, form) || (is_current(cached) && (!is_current(other) || (get_prandom_u32() & 1)))) {
        *at = second;
        return other;
    }
    return cached;
}

#endif
