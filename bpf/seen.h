/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * What the kernel half tells of a frame while somebody captures (src/kernel/watch.rs).
 */
#ifndef ANODE_SEEN_H
#define ANODE_SEEN_H

#include "base.h"

/* Bytes kept of a frame as it came, and as many of it as it left. */
enum { SEEN_BYTES = 9216 };

/* What became of it. */
enum { SEEN_DROPPED, SEEN_SENT, SEEN_COPIED, SEEN_RAISED };

/* Why it was dropped; in the order of the names in src/seen/join.rs. */
enum { BY_NOBODY, BY_CODE, BY_VERDICT, BY_BUDGET, BY_CEILING, BY_FORGER, BY_CUT };

/* A record of the ring buffer, and map `seen`, for each CPU, one entry: the next one. */
struct seen {
    u64 at;
    u32 interface;
    /* SEEN_…; a reason, or how many copies. */
    u16 done, reason;
    /* Bytes as it came, and behind them as it left, or went up with the verdict of its code. */
    u32 before, after;
    /* Records for which the ring had no room; not told, but read from the map. */
    u64 missed;
    u8 bytes[2 * SEEN_BYTES];
};

MAP(seen_map);
MAP(ring_map);

#endif
