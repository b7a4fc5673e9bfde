/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * An environment whose packets cost CPU time: each takes so many microseconds of the thread that is called with it,
 * and is dropped. As a process that is the process's own thread, as a shared object (cc -DHERE -shared) the node's.
 *
 *     burner ROLE IN-PROTOCOL TYPE MICROSECONDS [DOMAINS]
 *     burner ee if0/anep 3000 200
 *
 * With DOMAINS it has so many domains below its own, the first with a channel for TYPE, each further one for the
 * type behind.
 */
#include <anode/nodeos.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t cost_ns;

static uint64_t own_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void deliver(an_InChan_t in, an_PacketBuffer_t packet, const struct an_Ends *ends, void *arg)
{
    (void)in, (void)ends, (void)arg;
    uint64_t end = own_time() + cost_ns;
    while (own_time() < end)
        ;
    an_pktbufFree(packet);
}

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, an_strerror(an_error()));
    return 1;
}

int main(int argc, char **argv)
{
    if (argc < 5 || argc > 6)
        return fprintf(stderr, "usage: %s ROLE IN-PROTOCOL TYPE MICROSECONDS [DOMAINS]\n", argv[0]), 2;
    int type = atoi(argv[3]), domains = argc == 6 ? atoi(argv[5]) : 0;
    cost_ns = strtoull(argv[4], 0, 10) * 1000;
    an_Node_t node = an_nodeConnect(0, &(struct an_NodeSpec){.title = "burner", .cred = an_credCreate(0, argv[1])});
    if (!node)
        return failed("connect");
    an_Domain_t own = an_domainSelf(node);
    for (int at = 0; at < (domains ? domains : 1); at++) {
        char address[32];
        snprintf(address, sizeof address, "type %d", type + at);
        an_Domain_t domain = domains ? an_domainCreate(0, own, 0, 0) : own;
        if (!domain || !an_inchanCreate(0, domain, 0, argv[2], address, 0, deliver, 0))
            return failed(address);
    }
    fprintf(stderr, "ready.\n");
    an_domainWait(own);
    return an_nodeDisconnect(node);
}
