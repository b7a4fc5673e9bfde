/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * What both services of this folder do for a user, who is an address and a port: count packets and bytes, and answer with that.
 */
#pragma once
#include <anode/nodeos.h>
#include <arpa/inet.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Atomic, since in the node's own process what an_flowRun() runs may run beside what the node's thread does. */
struct count {
    atomic_uint_fast64_t packets, bytes, heard_ns;
};

/* Makes a packet the answer to itself. */
static inline void answer(an_Node_t node, struct count *count, an_PacketBuffer_t packet)
{
    char text[64];
    size_t bytes = 0;
    uint64_t now = 0;
    an_pktbufLength(packet, &bytes);
    unsigned long long packets = atomic_fetch_add(&count->packets, 1) + 1;
    unsigned long long all = atomic_fetch_add(&count->bytes, bytes) + bytes;
    an_timeNow(node, &now);
    atomic_store(&count->heard_ns, now);
    int length = snprintf(text, sizeof text, "%llu packets, %llu bytes", packets, all);
    if (an_pktbufResize(packet, length) == AN_OK)
        memcpy(an_pktbufData(packet), text, length);
}

/* Whether nothing was heard for so long. */
static inline int is_quiet(an_Node_t node, const struct count *count, uint64_t idle_ms)
{
    uint64_t now = 0;
    return an_timeNow(node, &now) != AN_OK || now - count->heard_ns >= idle_ms * 1000000;
}

static inline void send_or_free(an_OutChan_t out, const struct an_End *to, an_PacketBuffer_t packet)
{
    if (an_outchanSend(out, to, packet))
        an_pktbufFree(packet);
}

static inline int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, an_strerror(an_error()));
    return 1;
}
