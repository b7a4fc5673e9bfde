/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Marshals packets between the parts of a graph at two nodes: bytes that repeat go as one and how often. Both nodes load it, and the text
 * says @remote(10.0.0.2, codec/PackBits).
 *
 *     clang --target=wasm32 -O2 -nostdlib -fno-builtin -I "$(anode code sdk-path)" -Wl,--no-entry -Wl,--export=an_buffer \
 *         -o plain.wasm codec.c
 *     anode extension pack plain.wasm codec.toml -o codec.wasm
 *
 * A byte n below 128 stands before n + 1 bytes as they are, one above 128 before a byte that is there 257 - n times. So a packet becomes at
 * most one part in 128 longer. Each packet goes by itself: others may be lost, or overtake it.
 */
#include <anode/extension.h>

/* Bytes of a packet, at most, with their length before them. */
enum { MOST = AN_BUFFER_BYTES - 16, LONGEST = 128 };

static unsigned char out[MOST];

/* Bytes that were given, if they are all there. */
static int given(unsigned length)
{
    an_word bytes = length >= sizeof(an_word) ? AN_WORD(0) : MOST + 1;
    return bytes <= MOST && bytes <= length - sizeof(an_word) ? (int)bytes : AN_REFUSED;
}

/* Gives so many bytes of `out`. */
static int give(unsigned end)
{
    unsigned whole = (end + 7) / 8 * 8;
    AN_WORD(0) = end;
    for (unsigned at = 0; at < whole; at++)
        AN_BYTES(1)[at] = at < end ? out[at] : 0;
    return (int)(sizeof(an_word) + whole);
}

/* How often the byte at this place stands there. */
static int repeated(const unsigned char *in, int at, int end)
{
    int count = 1;
    while (count < LONGEST && at + count < end && in[at + count] == in[at])
        count++;
    return count;
}

AN_CALL(pack)
{
    const unsigned char *in = AN_BYTES(1);
    int bytes = given(length), at = 0;
    unsigned end = 0;
    while (at < bytes) {
        int from = at, count = repeated(in, at, bytes);
        if (end + LONGEST + 1 > MOST)
            return AN_TOO_BIG;
        if (count > 2) {
            out[end++] = (unsigned char)(257 - count);
            out[end++] = in[at];
            at += count;
            continue;
        }
        while (at < bytes && at - from < LONGEST && !(at + 2 < bytes && in[at] == in[at + 1] && in[at] == in[at + 2]))
            at++;
        out[end++] = (unsigned char)(at - from - 1);
        while (from < at)
            out[end++] = in[from++];
    }
    return bytes < 0 ? bytes : give(end);
}

AN_CALL(unpack)
{
    const unsigned char *in = AN_BYTES(1);
    int bytes = given(length), at = 0;
    unsigned end = 0;
    while (at < bytes) {
        int head = in[at++], count = head < 128 ? head + 1 : 257 - head, is_run = head > 128;
        /* What another node sends may be anything. */
        if (head == 128 || at + (is_run ? 1 : count) > bytes || end + (unsigned)count > MOST)
            return AN_REFUSED;
        while (count-- > 0) {
            out[end++] = in[at];
            at += is_run ? 0 : 1;
        }
        at += is_run ? 1 : 0;
    }
    return bytes < 0 ? bytes : give(end);
}
