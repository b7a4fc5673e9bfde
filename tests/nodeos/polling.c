/* A polling process at a polling node: packets go round and round, and now and then a long silence lets both sleep.
 * Packets sent by if0 come in by if1. Prints "ok" at the end. */
#include "await.h"
#include <anode/nodeos.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROUNDS = 200, HOPS = 50 };

static const struct an_End to = {.address = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 2}};
static an_OutChan_t out;
static atomic_int hops;

static void die(const char *what)
{
    printf("%s: %s\n", what, an_strerror(an_error()));
    exit(1);
}

#define MUST(...) do { if (!(__VA_ARGS__)) die(#__VA_ARGS__); } while (0)

/* The same packet goes on until it has gone round so often. */
static void deliver(an_InChan_t in, an_PacketBuffer_t packet, const struct an_Ends *ends, void *arg)
{
    (void)in, (void)ends, (void)arg;
    if (count_up(&hops) % HOPS < HOPS - 1)
        MUST(an_outchanSend(out, &to, packet) == AN_OK);
    else
        an_pktbufFree(packet);
}

int main(void)
{
    struct an_NodeSpec spec = {.cred = an_credCreate(0, "ee"), .busypoll_us = 300};
    an_Node_t node = an_nodeConnect(0, &spec);
    MUST(node);
    an_Domain_t domain = an_domainSelf(node);
    MUST(out = an_outchanCreate(0, domain, "if0/anep", "type 211", 0));
    MUST(an_inchanCreate(0, domain, 0, "if1/anep", "type 211", 0, deliver, 0));
    for (int round = 1; round <= ROUNDS; round++) {
        an_PacketBuffer_t packet = an_pktbufAlloc(domain);
        MUST(packet && an_pktbufResize(packet, 100) == AN_OK && an_outchanSend(out, &to, packet) == AN_OK);
        await_count(&hops, round * HOPS);
        usleep(round % 4 * 300);
    }
    MUST(an_nodeDisconnect(node) == AN_OK);
    puts("ok");
    return 0;
}
