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
enum { SHAPES = 16, KEYS = 4, TUPLES = 4 };

/* The layer that a filter looks at. */
enum { ON_LINK, ON_IP, ON_TRANSPORT };

/* A comparison with bytes of the payload, as they stand there. */
struct tuple {
    u64 value, mask;
    u32 offset, length;
};

/* All comparisons must hold. `cut`: number of the cut-through channel that the packets go by; 0: they go to the user half. */
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
    /* The node's number of the port. */
    u32 port, zero;
};

/* The same at the Linux stack, where maps are of one port each. */
struct stack_pattern {
    u64 source[2], destination[2];
    u16 source_port, destination_port;
    u16 kind, layer;
};

/* Map `shapes`, one entry: the most specific first. */
struct shapes {
    u32 count, zero;
    struct pattern masks[SHAPES];
};

/* The same at the Linux stack, in any order. */
struct stack_shapes {
    /* How many there are; whether the node takes what is its own without any. Guard and filter look here both, so they begin and end
     * to take frames at the same moment: none is taken from the stack that nobody has, and none is had twice. */
    u32 count, listens;
    struct stack_pattern masks[SHAPES];
};

/* Map `owners`, by pattern, and map `flows` at the Linux stack, by stack_pattern: filters that differ in their keys alone. */
struct owners {
    u32 count, zero;
    struct key keys[KEYS];
};

#endif
