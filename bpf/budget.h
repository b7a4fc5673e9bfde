/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * What the domain of a code may use here: packets and time, from buckets that fill at a steady rate. A CPU takes packets
 * a share at a time, so the bucket's lock is touched once a share; the first packet of each is timed and stands for all of them.
 */
#ifndef ANODE_BUDGET_H
#define ANODE_BUDGET_H

#include "contract.h"

enum { SECOND = 1000000000, BURST = SECOND / 10 };

INLINE u64 refilled(u64 tokens, u64 rate, u64 passed)
{
    u64 most = rate / 10 + 1, more = tokens + passed * rate / SECOND;
    return more < most ? more : most;
}

/* Takes the next share of packets for this CPU; 0 if the domain is over its budget. */
INLINE int take_share(u32 slot, struct usage *usage, u64 now)
{
    struct budget *budget = map_lookup(budgets_map, &slot);
    u64 share = SHARE;

    if (!budget)
        return 0;
    spin_lock(budget);
    u64 passed = now - budget->at;
    /* Shorter times would be lost in rounding. */
    if (passed > 10000) {
        if (passed > BURST)
            passed = BURST;
        budget->packets = refilled(budget->packets, budget->packets_rate, passed);
        budget->time = refilled(budget->time, budget->time_rate, passed);
        budget->at = now;
    }
    if (share > budget->packets)
        share = budget->packets;
    if (!budget->time)
        share = 0;
    budget->packets -= share;
    spin_unlock(budget);
    usage->left = share;
    return share != 0;
}

/* Charges the time of a packet that stands for a share. */
INLINE void charge(u32 slot, struct usage *usage, u64 time)
{
    struct budget *budget = map_lookup(budgets_map, &slot);

    if (!budget)
        return;
    time *= SHARE;
    usage->time += time;
    spin_lock(budget);
    budget->time = budget->time > time ? budget->time - time : 0;
    spin_unlock(budget);
}

#endif
