/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The calls of sdk/anode/capsule.h in the kernel half, such as `an_now` and `an_state_put`. The linker appends to a
 * program the calls of its code and no others. Code with a call that is missing here runs in the user half.
 *
 * Every pointer comes from mobile code and is checked by the kernel's verifier, call by call: what
 * is written through it must be memory of the code's own.
 */
#ifndef ANODE_ENVIRONMENT_H
#define ANODE_ENVIRONMENT_H

#include "contract.h"

#define constant(which)                                                                                        \
    ({                                                                                                         \
        u64 value_;                                                                                            \
        asm volatile("%0 = %1" : "=r"(value_) : "i"(which));                                                   \
        value_;                                                                                                \
    })

/* An address so many bytes behind `at`, in the form the kernel lets a loader of few rights compute it. */
#define behind(at, which)                                                                                      \
    ({                                                                                                         \
        u8 *at_ = (u8 *)(at);                                                                                  \
        asm volatile("%0 += %1" : "+r"(at_) : "i"(which));                                                     \
        at_;                                                                                                   \
    })

#define CALL FUNCTION

/* The node's clock. */
INLINE u64 clock(void)
{
    return ktime_get_ns() - node()->origin;
}

CALL u64 an_now(void) { return clock(); }

CALL u64 an_random(void)
{
    u64 high = get_prandom_u32();
    return high << 32 | get_prandom_u32();
}

CALL int an_node_name(u64 *name)
{
    const volatile struct node *here = node();

    name[0] = *(const volatile u64 *)here->name;
    name[1] = *(const volatile u64 *)(here->name + 8);
    return 0;
}

CALL u32 an_neighbours(void)
{
    return node()->neighbours;
}

CALL int an_neighbour(u32 index, u64 *addr)
{
    u64 *listed = map_lookup(neighbours_map, &index);

    addr[0] = listed ? listed[0] : 0;
    addr[1] = listed ? listed[1] : 0;
    return listed && (listed[0] | listed[1]) ? 0 : -1;
}

CALL int an_route(const u32 *to, u64 *next)
{
    struct prefix prefix = {128, {to[0], to[1], to[2], to[3]}};
    struct route *route = map_lookup(routes_map, &prefix);

    next[0] = next[1] = 0;
    if (!route || route->port == NOWHERE)
        return -1;
    if (route->here)
        return -6;
    if (route->via[0] | route->via[1]) {
        next[0] = route->via[0];
        next[1] = route->via[1];
    } else {
        next[0] = prefix.addr[0] | (u64)prefix.addr[1] << 32;
        next[1] = prefix.addr[2] | (u64)prefix.addr[3] << 32;
    }
    return (int)route->port;
}

#include "state.h"

/* The record of the packet whose code runs; its place in the map. Only code that sends or logs has one. */
INLINE struct record *record_of(u32 *at)
{
    const struct window *own = map_lookup(window_map, zero_value);

    if (!own)
        return 0;
    *at = own->record;
    return map_lookup(records_map, at);
}

CALL int an_send(u32 bound)
{
    struct current *now = map_lookup(current_map, zero_value);
    struct window *own = map_lookup(window_map, zero_value);
    u32 at;
    struct record *record = record_of(&at);

    if (!now || !own || !record)
        return -5;
    if (!bound || bound > now->bound)
        return -4;
    u32 sends = record->sends;
    if (sends >= constant(MOST))
        return -3;
    own->send.bound = bound;
    at = at * SENDS + sends;
    if (map_update(sends_map, &at, own, 0))
        return -3;
    record->sends = sends + 1;
    now->bound -= bound;
    return 0;
}

CALL int an_log(u32 tag, u64 value)
{
    struct line line = {value, tag, 0};
    u32 at;
    struct record *record = record_of(&at);

    if (!record || record->lines >= LINES)
        return -3;
    at = at * LINES + record->lines;
    if (map_update(lines_map, &at, &line, 0))
        return -3;
    record->lines++;
    return 0;
}

/* The same rules as those of the user half (src/core/wish.rs), on the same words. */
CALL int an_graph_wish(u32 number)
{
    u32 slot = constant(SLOT);
    struct account *account = map_lookup(accounts_map, &slot);

    if (!account)
        return -5;
    u64 edits = *(volatile u64 *)&account->edits, bit = number < 64 ? 1ull << (number & 63) : 0;
    if (!(edits & bit)) {
        __sync_fetch_and_add(&account->wishes_refused, 1);
        return edits ? -1 : -5;
    }
    if (*(volatile u64 *)&account->wished & bit)
        return 0;
    if (!(*(volatile u64 *)&account->open & bit)) {
        __sync_fetch_and_add(&account->wishes_later, 1);
        return -3;
    }
    __sync_fetch_and_or(&account->wished, bit);
    return 0;
}

#endif
