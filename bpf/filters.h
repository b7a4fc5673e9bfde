/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Filters of incoming channels as they stand in maps: patterns over the fields of a frame, and keys over its payload.
 * Example: UDP to 10.0.0.7 port 5000, payload beginning with `GET`. Filters with the same mask are of one shape.
 *
 * Two maps have them: that of the programs at the Linux stack, one set for each interface (take.h), and that of the
 * programs before it, one for all (channel.h).
 */
#ifndef ANODE_FILTERS_H
#define ANODE_FILTERS_H

#include "base.h"

/* The most shapes; the most keys of filters that differ in these alone; the most comparisons of a key. */
enum { SHAPES = 20, KEYS = 4, TUPLES = 4 };

/* The layer that a filter looks at. */
enum { ON_LINK, ON_IP, ON_TRANSPORT };

/* A comparison with bytes of the payload, as they stand there. */
struct tuple {
    u64 value, mask;
    u32 offset, length;
};

/* All comparisons must hold. `cut`: number of the cut-through channel that the packets go by; 0: they go to the user half. At the Linux
 * stack, not 0: the node looks at them, and the stack has them too. */
struct key {
    u32 count, cut;
    struct tuple tuples[TUPLES];
};

/* What a filter looks at: masks over the fields, which are all ones, all zeroes, or a prefix. */
struct pattern {
    u64 source[2], destination[2];
    u16 source_port, destination_port;
    /* Ethernet's type, or the protocol of the IP header, big endian. */
    u16 kind;
    /* ON_LINK, ON_IP or ON_TRANSPORT. */
    u16 layer;
    /* Which mask it is: all filters are in one map, and 10.0.0.0/8 and 10.0.0.0/16 have the same fields. */
    u32 shape;
    /* The node's number of the port; not at the Linux stack, where maps are of one port each. */
    u32 port;
};

/* Map `shapes`, one entry: the most specific first. */
struct shapes {
    /* How many there are; at the Linux stack, whether the node takes what is its own without any. Guard and filter look here both, so
     * they begin and end to take frames at the same moment: none is taken from the stack that nobody has, and none is had twice. */
    u32 count, listens;
    struct pattern masks[SHAPES];
};

/* Map `owners`, and map `flows` at the Linux stack, by pattern: filters that differ in their keys alone. */
struct owners {
    u32 count, zero;
    struct key keys[KEYS];
};

#endif
