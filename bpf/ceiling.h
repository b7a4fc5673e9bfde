/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The ceiling of a port: the CPU time that capsules from one port may use here, from a bucket that fills at a steady
 * rate. Capsules beyond it are dropped at once, the cheapest thing to do with them, so ordinary traffic of the CPU
 * keeps the rest.
 *
 * One packet of each share, chosen at random, is timed while its code runs, and stands for all of them. A punted
 * packet is charged what the stack takes for it. The user half has a ceiling for each neighbour (src/node/entry.rs).
 */
#ifndef ANODE_CEILING_H
#define ANODE_CEILING_H

#include "budget.h"

/* Nanoseconds: of a capsule beside its code; of a frame on its way up the stack to a socket. */
enum { AROUND = 50, RAISED = 1500 };

/* This CPU's line of the ceiling of a port. */
INLINE struct ceiling *ceiling_of(u32 port)
{
    u32 at = smp_processor_id() * CEILINGS + (port & (CEILINGS - 1));
    return map_lookup(ceilings_map, &at);
}

/* The next share of packets; 0 if the port's time on this CPU is used up. */
FUNCTION int raise_ceiling(struct ceiling *ceiling)
{
    u64 now = ktime_get_ns(), rate = (u64)node()->permille * (SECOND / 1000) * 1000;

    if (!ceiling)
        return 0;
    ceiling->time = refilled(ceiling->time, rate, passed_since(&ceiling->at, now), &ceiling->part);
    if (rate && ceiling->time <= 0) {
        ceiling->refused++;
        return 0;
    }
    ceiling->left = SHARE;
    ceiling->timed = one_of(SHARE);
    return 1;
}

/* Whether a port has time left. */
INLINE int is_below(struct ceiling *ceiling) { return ceiling && (LIKELY(ceiling->left) || raise_ceiling(ceiling)); }

/* Charges a port. Without a rate nothing is owed. */
INLINE void pay(struct ceiling *ceiling, u64 time)
{
    u64 rate = (u64)node()->permille * (SECOND / 1000) * 1000;

    ceiling->spent += time;
    ceiling->time = charged(ceiling->time, time, rate);
    if (rate && ceiling->time <= 0)
        ceiling->left = 0;
}

#endif
