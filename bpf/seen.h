/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * What the kernel half tells of a frame while somebody captures (src/kernel/watch.rs).
 */
#ifndef ANODE_SEEN_H
#define ANODE_SEEN_H

#include "wire.h"

/* Bytes kept of a frame as it came, and as many of it as it left. */
enum { SEEN_BYTES = 9216 };

/* Bytes of a frame by which it is told what became of it: two link addresses and a type. A frame that is to be copied has the number of
 * its record there (children.h), by which its copies are known. */
enum { LOOKED_AT = sizeof(struct ethernet) };

/* What became of it; SEEN_COPY: it is itself a copy, which leaves. */
enum { SEEN_DROPPED, SEEN_SENT, SEEN_COPIED, SEEN_RAISED, SEEN_COPY };

/* Why it was dropped; in the order of the names in src/seen/join.rs. */
enum { BY_NOBODY, BY_CODE, BY_VERDICT, BY_BUDGET, BY_CEILING, BY_FORGER, BY_CUT };

/* A record of the ring buffer, and map `seen`, for each CPU, one entry: the next one. */
struct seen {
    u64 at;
    /* Where it came in; of a copy where it leaves. */
    u32 interface;
    /* SEEN_…; a reason, or how many copies. */
    u16 done, reason;
    /* Bytes as it came, and behind them as it left, or went up with the verdict of its code. Of a frame that is copied LOOKED_AT bytes of
     * it as it was copied, behind it as it came; and as many of each copy before it, behind them as it leaves. */
    u32 before, after;
    /* Records for which the ring had no room; not told, but read from the map. */
    u64 missed;
    u8 bytes[2 * SEEN_BYTES];
};

MAP(seen_map);
MAP(ring_map);

/* BPF_FUNC_ringbuf_output, which wakes nobody: whoever captures looks at times. */
static long (*const ringbuf_output)(const void *ring, void *data, u64 size, u64 flags) = (void *)130;
enum { NO_WAKEUP = 1 };

/* BPF_FUNC_ringbuf_query: bytes that wait there, or of all of it. */
static u64 (*const ringbuf_query)(const void *ring, u64 what) = (void *)134;
enum { RING_WAITING, RING_SIZE };

/* Bytes of a frame that are kept. */
INLINE u32 bytes_kept(struct xdp *ctx)
{
    u64 length = xdp_get_buff_len(ctx);

    return length > SEEN_BYTES ? SEEN_BYTES : (u32)length;
}

/* Whether the ring may have no room for a frame of so many bytes, as it came and as it left: a flood is told of as far as anybody listens,
 * and what is beyond is not copied to be thrown away. */
INLINE int is_full(u32 length)
{
    return ringbuf_query(ring_map, RING_WAITING) + sizeof(struct seen) - 2 * (SEEN_BYTES - length) > ringbuf_query(ring_map, RING_SIZE);
}

/* Tells of a frame, of so many bytes before and after. */
INLINE void tell_of(struct seen *seen, u32 interface, u32 before, u32 after)
{
    u32 size = __builtin_offsetof(struct seen, bytes) + before + after;

    seen->at = ktime_get_ns();
    seen->interface = interface;
    seen->before = before;
    seen->after = after;
    if (size > sizeof(*seen) || ringbuf_output(ring_map, seen, size, NO_WAKEUP))
        seen->missed++;
}

#endif
