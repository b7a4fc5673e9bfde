/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * A proxy of TCP streams: whoever connects to one address talks to another. The system's stack has the streams; the program, in a jail
 * without a network, has their bytes.
 *
 *     cc -I sdk examples/nodeos/proxy.c -lanode1 -o proxy
 *     ANODE_NODEOS=/run/anode/r/nodeos.sock ./proxy ROLE LISTEN CONNECT
 *     … ./proxy ee 10.0.1.2:8000 10.0.2.2:80            [role.streams] listen = ["10.0.1.2:8000"], connect = ["10.0.2.0/24:80"]
 */
#include <anode/nodeos.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 8 };

/* Two streams, and a thread for each direction; the last one to end closes both. */
struct pair {
    an_Stream_t stream[2];
    struct way { struct pair *pair; int from; } way[2];
    atomic_int ways;
};

static void end_of(struct pair *pair)
{
    if (atomic_fetch_sub(&pair->ways, 1) > 1)
        return;
    an_streamClose(pair->stream[0]);
    an_streamClose(pair->stream[1]);
    free(pair);
}

static void hand_over(void *arg)
{
    static _Thread_local char buffer[16384];
    struct way *way = arg;
    an_Stream_t from = way->pair->stream[way->from], to = way->pair->stream[!way->from];
    size_t bytes, written;
    while (an_streamRead(from, buffer, sizeof buffer, -1, &bytes) == AN_OK && bytes)
        if (an_streamWrite(to, buffer, bytes, -1, &written))
            break;
    an_streamFinish(to);
    end_of(way->pair);
}

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, an_strerror(an_error()));
    return 1;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return fprintf(stderr, "usage: %s ROLE LISTEN CONNECT\n", argv[0]), 2;
    struct an_ThreadPoolSpec threads = {.maxthreads = THREADS};
    an_Cred_t cred = an_credCreate(0, argv[1]);
    an_Node_t node = an_nodeConnect(0, &(struct an_NodeSpec){.title = "proxy", .cred = cred, .threads = &threads});
    if (!node)
        return failed("connect");
    an_Domain_t domain = an_domainSelf(node);
    an_StreamChan_t chan = an_streamListen(0, domain, argv[2]);
    if (!chan)
        return failed(argv[2]);
    puts("ready");
    fflush(stdout);
    an_Stream_t in;
    while ((in = an_streamAccept(0, chan, -1, 0))) {
        struct pair *pair = malloc(sizeof *pair);
        an_Stream_t out = pair ? an_streamConnect(0, domain, argv[3]) : 0;
        if (!out) {
            failed(argv[3]);
            an_streamClose(in);
            free(pair);
            continue;
        }
        *pair = (struct pair){.stream = {in, out}, .way = {{pair, 0}, {pair, 1}}, .ways = 2};
        for (int at = 0; at < 2; at++)
            if (an_threadCreate(domain, hand_over, &pair->way[at]))
                end_of(pair);
    }
    return an_nodeDisconnect(node);
}
