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

/* The most masks; the most keys of filters that differ in these alone; the most comparisons of a key. */
enum { SHAPES = 20, KEYS = 4, TUPLES = 4 };

/* The most shapes in the list of a mask that stands for several; the most that are looked at for one frame; of these with keys. */
enum { LISTED = 30, CANDIDATES = 32, KEYED = 8 };

/* Sets of masks that stay as they were behind the one that holds: programs that have begun to read one end with it. */
enum { SHAPE_SETS = 16 };

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
    /* The number of its shape: all filters are in one map, and 10.0.0.0/8 and 10.0.0.0/16 have the same fields. */
    u32 shape;
    /* The node's number of the port; not at the Linux stack, where maps are of one port each. */
    u32 port;
};

/* Map `shapes`: the sets of masks behind the first entry, which says in `now` which of them holds; the most specific mask first.
 *
 * With no more shapes than masks each mask is one shape's, and its filters are looked for at once. With more of them a mask stands for
 * several shapes, and matches at least what they do: what no mask matches is nobody's, and of what one matches `lists` says for which
 * shapes there may be a filter. */
struct shapes {
    /* How many there are; at the Linux stack, whether the node takes what is its own without any. Guard and filter look here both, so
     * they begin and end to take frames at the same moment: none is taken from the stack that nobody has, and none is had twice. */
    u32 count, listens;
    /* A bit for each mask that stands for several shapes. */
    u32 merged, now;
    struct pattern masks[SHAPES];
};

/* Map `lists`, by pattern of a mask that stands for several: numbers of the shapes that have filters within it, the most specific first;
 * of the first one that has no room the number and 1: the user half decides about what is none of the others'. */
struct listed {
    u32 count, more;
    u32 shapes[LISTED];
};

/* The shapes that one frame is looked for by, from all lists; `more` as there. Of those whose filters have keys the numbers again: the
 * payload is looked at when all others have been. */
struct candidates {
    u32 count, more;
    u32 shapes[CANDIDATES];
    u32 keyed, zero;
    u32 keyed_shapes[KEYED];
};

/* Where in the number of a shape stands what it looks at (src/classify/shape.rs). The number of a more specific shape is larger. */
enum { AT_PORT, AT_KIND, AT_SOURCE, AT_DESTINATION_PORT = 10, AT_DESTINATION, AT_SOURCE_PORT = 19, AT_LAYER };

/* The first so many bits of an address. */
INLINE void first_bits(u64 mask[2], u32 bits)
{
    u32 low = bits > 64 ? bits - 64 : 0;

    mask[0] = bits > 63 ? ~0ull : __builtin_bswap64(~(~0ull >> (bits & 63)));
    mask[1] = low > 63 ? ~0ull : __builtin_bswap64(~(~0ull >> (low & 63)));
}

/* The mask of the shape with a number. */
INLINE void mask_of(u32 number, struct pattern *mask)
{
    first_bits(mask->source, number >> AT_SOURCE & 255);
    first_bits(mask->destination, number >> AT_DESTINATION & 255);
    mask->source_port = (u16)-(number >> AT_SOURCE_PORT & 1);
    mask->destination_port = (u16)-(number >> AT_DESTINATION_PORT & 1);
    mask->kind = (u16)-(number >> AT_KIND & 1);
    mask->layer = (u16)(number >> AT_LAYER);
    mask->shape = number;
    mask->port = -(number >> AT_PORT & 1);
}

/* A filter of a shape may have a frame, as far as is known here. */
INLINE void doubt(struct candidates *among, u32 shape)
{
    if (shape >= among->more)
        among->more = shape + 1;
}

/* In a register, so that what is compared is what is added to an address. */
#define IN_REGISTER(at) asm volatile("" : "+r"(at))

/* Adds what a list names to the candidates of a frame. */
INLINE void add_listed(struct candidates *to, const struct listed *list)
{
    if (list->more > to->more)
        to->more = list->more;
#pragma clang loop unroll(disable)
    for (u32 i = 0; i < LISTED; i++) {
        u64 at = to->count;

        if (i >= list->count)
            break;
        IN_REGISTER(at);
        if (at >= CANDIDATES) {
            /* The first of these is the most specific one. */
            doubt(to, list->shapes[i]);
            break;
        }
        to->shapes[at] = list->shapes[i];
        to->count = (u32)at + 1;
    }
}

/* Has a candidate's keys looked at later. */
INLINE void add_keyed(struct candidates *to, u32 shape)
{
    u64 at = to->keyed;

    IN_REGISTER(at);
    if (at >= KEYED)
        return doubt(to, shape);
    to->keyed_shapes[at] = shape;
    to->keyed = (u32)at + 1;
}

/* Map `owners`, and map `flows` at the Linux stack, by pattern: filters that differ in their keys alone. `more`: there are others, which
 * have no room here; the user half decides about what is none of these. */
struct owners {
    u32 count, more;
    struct key keys[KEYS];
};

/* Places for foreign flows of an interface: IP packets of one pair of ends, of which no rule over taught protocols can hold. */
enum { FOREIGN_FLOWS = 8192 };

/* Key of map `foreign`: all that such packets are told apart by, as it stands in them; addresses of IPv4 are mapped ones. */
struct foreign_flow {
    u64 source[2], destination[2];
    u16 source_port, destination_port;
    /* Ethernet's type. */
    u16 type;
    u8 protocol, zero;
};

/* What is known of one; and map `foreign_now`, one entry: it is believed while these two are the same. */
struct foreign {
    u64 generation;
};

/* Map `foreign_count`, for each CPU, one entry: packets that were not copied to the node. */
struct foreign_count {
    u64 spared;
};

#endif
