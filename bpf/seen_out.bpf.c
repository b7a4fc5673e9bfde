/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The egress while somebody captures: the same source, as a function, and behind it a look at each copy that leaves. Example: a multicast
 * capsule goes on to three neighbours. The ingress tells that it was copied, and this tells of three packets.
 *
 *     frame ─▶ a copy? its record is kept ─▶ [egress.bpf.c makes it a packet] ─▶ told as it leaves
 *
 * It stands in the place of the egress as long as somebody captures, over the same maps, behind the same entries. Other frames that leave
 * by these were told of where they came in (seen.bpf.c).
 */
#include "base.h"

#undef SECTION
#define SECTION(name) FUNCTION
#include "egress.bpf.c"
#undef SECTION
#define SECTION(name) __attribute__((section(name), used))

#include "seen.h"

/* Keeps of a copy which record it is of; 0: the frame is none. */
FUNCTION int keep_copy(struct xdp *ctx)
{
    struct seen *seen = map_lookup(seen_map, zero_value);
    const struct ethernet *ethernet = (const void *)packet(ctx);

    if (!seen || (const u8 *)(ethernet + 1) > packet_end(ctx) || LIKELY(ethernet->type != be16(COPIED)))
        return 0;
    return !xdp_load_bytes(ctx, 0, seen->bytes, LOOKED_AT);
}

/* Tells of a copy as it leaves. */
FUNCTION int tell_copy(struct xdp *ctx)
{
    struct seen *seen = map_lookup(seen_map, zero_value);
    u32 length = bytes_kept(ctx);

    if (!seen)
        return 0;
    seen->done = SEEN_COPY;
    seen->reason = 0;
    if (!length || length > SEEN_BYTES || is_full(length) || xdp_load_bytes(ctx, 0, seen->bytes + LOOKED_AT, length)) {
        seen->missed++;
        return 0;
    }
    tell_of(seen, ctx->egress_ifindex, LOOKED_AT, length);
    return 0;
}

SECTION("xdp/devmap") int seen_out(struct xdp *ctx)
{
    int is_copy = keep_copy(ctx), done = egress(ctx);

    if (is_copy && done == XDP_PASS)
        tell_copy(ctx);
    return done;
}
