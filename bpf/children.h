/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Records: what code does beside its verdict, such as sending three children, and the replicas that become these
 * children.
 *
 * A broadcast of a device map makes replicas of one frame. A program at each interface makes each a packet: the first
 * send of the record that leaves there and has not left yet. Replicas are made at once and wait on their CPU until the
 * driver has had its share of frames. So a record is in use until the last has left, and its number says whose it is.
 */
#ifndef ANODE_CHILDREN_H
#define ANODE_CHILDREN_H

#include "wire.h"

/* Ticks of the kernel's clock after which a record is free again that somebody has lost; frames do not wait that long. */
enum { LOST_TICKS = 250 };

/* Records looked at for a free one. */
enum { TRIED = 8 };

/* Bytes of the largest frame that is copied: with the room before it, a page. */
enum { COPIED_MAX = 3072 };

/* Finds the record for the next packet. */
INLINE void prepare(struct window *own)
{
    u32 records = node()->records, first = smp_processor_id() * records;
    u64 now = jiffies();

    own->ready = 0;
#pragma clang loop unroll(disable)
    for (u32 i = 1; i <= TRIED; i++) {
        u32 at = first + ((own->record + i) & (records - 1));
        struct record *record = map_lookup(records_map, &at);
        if (!record)
            return;
        if (record->left && now - record->since < LOST_TICKS)
            continue;
        record->left = record->sends = record->lines = 0;
        record->number++;
        own->record = at;
        own->ready = 1;
        return;
    }
}

/* Where the number of a record stands in a frame that is to be copied. */
INLINE void mark(u8 *data, u32 at, u64 number)
{
    *(u64 *)data = number;
    *(u32 *)(data + 8) = at;
    ((struct ethernet *)data)->type = be16(COPIED);
}

#endif
