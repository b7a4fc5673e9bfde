/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Functions of both halves, run on the same numbers (src/kernel/vectors.rs): hashes for places in maps, and buckets. A
 * test runs this program by BPF_PROG_TEST_RUN; no interface has it. The packet is a question in words of 8 bytes, the
 * first of which names the function; afterwards it is the answer.
 */
#include "budget.h"
#include "environment.h"
#include "flow_cache.h"

struct question {
    u64 words[8];
};

enum { PLACE_OF_ADDRESS, PLACE_OF_CODE, PLACE_OF_KEY, BUCKET, HEADER_SUM };

/* One step of a bucket: tokens, part, when it was looked at last; room, rate; now, and what is charged. */
INLINE void step(u64 *word)
{
    u32 part = (u32)word[2];
    u64 passed = passed_since(&word[3], word[6]);
    long long tokens = filled((long long)word[1], (long long)word[4], word[5], passed, &part);

    word[1] = (u64)charged(tokens, word[7], word[5]);
    word[2] = part;
}

SECTION("xdp") int vectors(struct xdp *ctx)
{
    struct question *question = (void *)packet(ctx);
    u64 *word = question->words;

    if ((const u8 *)(question + 1) > packet_end(ctx))
        return XDP_ABORTED;
    if (word[0] == PLACE_OF_ADDRESS && word[4] == NEIGHBOUR_PLACES)
        word[1] = place(word + 1, (u32)word[3], NEIGHBOUR_PLACES);
    else if (word[0] == PLACE_OF_ADDRESS)
        word[1] = place(word + 1, (u32)word[3], NEXT_HOPS / 2);
    else if (word[0] == PLACE_OF_CODE)
        word[1] = code_home(word + 1);
    else if (word[0] == PLACE_OF_KEY)
        word[1] = set_place(word[1], (u32)word[2]);
    else if (word[0] == BUCKET)
        step(word);
    else if (word[0] == HEADER_SUM)
        word[1] = (u64)is_summed((const struct ipv4 *)(word + 1));
    else
        return XDP_DROP;
    return XDP_PASS;
}
