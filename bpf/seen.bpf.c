/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The ingress while somebody captures: the same source, as a function, between two looks at the frame.
 *
 *     frame ─▶ kept as it came ─▶ [ingress.bpf.c, with all that it jumps to, and back] ─▶ told as it left
 *
 * It stands in the place of the ingress as long as somebody captures, over the same maps. What the user half gets as it came is not told
 * here: the user half tells it. A tail call within a function comes back to the function's caller. So whichever program ends the way of a
 * frame, its answer arrives here. The kernel's verifier thinks that it is one of the ingress's own, which come from the same set.
 */
#include "base.h"

#undef SECTION
#define SECTION(name) FUNCTION
#include "ingress.bpf.c"
#undef SECTION
#define SECTION(name) __attribute__((section(name), used))

#include "children.h"
#include "seen.h"

/* What no code returns. */
enum { NOTHING_YET = 0xffffffffu };

/* Keeps a frame as it came; until it is told of, `after` says whether that is too much to be told. */
FUNCTION int keep(struct xdp *ctx)
{
    struct seen *seen = map_lookup(seen_map, zero_value);
    struct current *now = map_lookup(current_map, zero_value);
    u32 length = bytes_kept(ctx);

    if (!seen || !now)
        return 0;
    seen->before = 0;
    if (length < sizeof(struct ethernet) || length > SEEN_BYTES)
        return 0;
    seen->after = (u32)is_full(length);
    if (seen->after ? xdp_load_bytes(ctx, 0, seen->bytes, LOOKED_AT) : xdp_load_bytes(ctx, 0, seen->bytes, length))
        return 0;
    seen->before = length;
    /* Both are set before code runs, and looked at by nobody before. */
    now->slot = 0;
    now->verdict = NOTHING_YET;
    return 0;
}

/* Why a frame was dropped. */
INLINE u16 why(struct xdp *ctx, const struct seen *seen, const struct current *now)
{
    u32 slot = now->slot;

    if (*(const u16 *)(seen->bytes + 12) == be16(PASSED_UP))
        return BY_FORGER;
    if (!slot)
        return form_of(packet(ctx), packet_end(ctx)) ? BY_CEILING : BY_CUT;
    if (now->verdict == NOTHING_YET) {
        const struct usage *usage = usage_of(slot);
        return usage && !usage->left ? BY_BUDGET : BY_CEILING;
    }
    return now->verdict == VERDICT_DROP ? BY_CODE : BY_VERDICT;
}

/* What became of a frame that was redirected: 0 if the user half has it. */
INLINE int redirected(struct xdp *ctx, struct seen *seen)
{
    const u8 *data = packet(ctx);
    const struct ethernet *ethernet = (const void *)data;

    if ((const u8 *)(ethernet + 1) > packet_end(ctx) || ethernet->type == be16(PASSED_UP))
        return 0;
    /* A frame of this type may come in too, and go to the user half: for a channel of frames. It has no record. */
    u32 at = *(const u32 *)(data + 8), copies = 0;
    const struct record *record = ethernet->type == be16(COPIED) ? map_lookup(records_map, &at) : 0;
    if (record && record->number == *(const u64 *)data) {
#pragma clang loop unroll(disable)
        for (u32 i = 0; i < SENDS; i++)
            copies += record->left >> i & 1;
        seen->done = SEEN_COPIED;
        seen->reason = (u16)copies;
        return 1;
    }
    /* What goes to a socket as it came has the addresses that it had. What is sent has another destination, since it came for this port;
     * its sender may have written any source. */
    const u32 *now = (const u32 *)data, *before = (const u32 *)seen->bytes;
    if (now[0] == before[0] && now[1] == before[1] && now[2] == before[2])
        return 0;
    seen->done = SEEN_SENT;
    seen->reason = 0;
    return 1;
}

/* Whether the user half gets a frame with the verdict of its code, which may have written into it. */
INLINE int is_raised(struct xdp *ctx, const struct current *now)
{
    const struct ethernet *ethernet = (const void *)packet(ctx);

    if ((const u8 *)(ethernet + 1) > packet_end(ctx))
        return 0;
    return ethernet->type == be16(PASSED_UP) && now->slot && now->verdict != NOTHING_YET;
}

/* Tells of a frame as it left. */
FUNCTION int tell(struct xdp *ctx, u32 done)
{
    struct seen *seen = map_lookup(seen_map, zero_value);
    const struct current *now = map_lookup(current_map, zero_value);

    if (!seen || !now || !seen->before)
        return 0;
    u32 before = seen->before, length, after = 0;
    if (is_raised(ctx, now)) {
        seen->done = SEEN_RAISED;
        seen->reason = 0;
    } else if (done == XDP_PASS) {
        return 0;
    } else if (done == XDP_REDIRECT) {
        if (!redirected(ctx, seen))
            return 0;
    } else {
        seen->done = SEEN_DROPPED;
        seen->reason = done == XDP_DROP ? why(ctx, seen, now) : BY_NOBODY;
    }
    if (seen->after) {
        seen->missed++;
        return 0;
    }
    if (before > SEEN_BYTES)
        return 0;
    length = seen->done == SEEN_COPIED ? LOOKED_AT : seen->done == SEEN_DROPPED ? 0 : bytes_kept(ctx);
    if (length && length <= SEEN_BYTES && !xdp_load_bytes(ctx, 0, seen->bytes + before, length))
        after = length;
    tell_of(seen, ctx->ingress_ifindex, before, after);
    return 0;
}

SECTION("xdp") int seen(struct xdp *ctx)
{
    keep(ctx);
    int done = ingress(ctx);
    tell(ctx, (u32)done);
    return done;
}
