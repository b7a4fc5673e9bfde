/* Packets that one channel's function passes on to other channels, in the turns of their domains. A packet sent by if0 comes in by if1.
 * Prints "ok" at the end. */
#include "await.h"
#include <anode/nodeos.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static an_Node_t node;
static an_Domain_t top, flow;
static an_InChan_t first, second, third;
static atomic_int arrived, held, go_on;

static void die(int line, const char *what)
{
    printf("line %d: %s: %s\n", line, what, an_strerror(an_error()));
    exit(1);
}

#define MUST(...) do { if (!(__VA_ARGS__)) die(__LINE__, #__VA_ARGS__); } while (0)
#define FAILS(error, ...) MUST(!(__VA_ARGS__) && an_error() == error)

/* What a port has brought goes on without its first byte, and its name means nothing any more. */
static void of_port(an_InChan_t in, an_PacketBuffer_t packet, const struct an_Ends *ends, void *arg)
{
    struct an_Ends told = {.source = {.address = {[15] = 1}, .known = 1}};
    (void)arg, (void)ends;
    MUST(in == first && an_domainSelf(node) == top);
    MUST(an_pktbufTrim(packet, 1) == AN_OK);
    MUST(an_inchanPass(second, packet, &told) == AN_OK);
    MUST(an_pktbufFree(packet) == AN_ESTALE && an_inchanPass(second, packet, &told) == AN_ESTALE);
}

/* The a-flow's gets it with the ends that were told, and passes it on without. */
static void of_flow(an_InChan_t in, an_PacketBuffer_t packet, const struct an_Ends *ends, void *arg)
{
    size_t length;
    MUST(in == second && arg == &held && an_domainSelf(node) == flow && ends->source.known && ends->source.address[15] == 1);
    MUST(an_pktbufLength(packet, &length) == AN_OK && length == 3 && !memcmp(an_pktbufData(packet), "ass", 3));
    MUST(an_inchanPass(third, packet, 0) == AN_OK);
}

static void at_last(an_InChan_t in, an_PacketBuffer_t packet, const struct an_Ends *ends, void *arg)
{
    (void)arg;
    MUST(in == third && an_domainSelf(node) == top && !ends->source.known && !ends->destination.known);
    MUST(an_pktbufFree(packet) == AN_OK);
    count_up(&arrived);
}

static void block(an_Domain_t of, void *state)
{
    MUST(of == flow && state == &held);
    count_up(&held);
    await_count(&go_on, 1);
}

/* How many packets can be had. */
static int room(void)
{
    static an_PacketBuffer_t all[1 << 16];
    int count = 0;
    while (count < 1 << 16 && (all[count] = an_pktbufAlloc(top)))
        count++;
    MUST(an_error() == AN_ELIMIT && count > 8);
    for (int at = 0; at < count; at++)
        MUST(an_pktbufFree(all[at]) == AN_OK);
    return count;
}

/* What waits in a channel that is destroyed is given back. */
static void waiting(void)
{
    int before = room();
    MUST(an_flowRun(flow, block) == AN_OK);
    await_count(&held, 1);
    for (int at = 0; at < 5; at++) {
        an_PacketBuffer_t packet = an_pktbufAlloc(top);
        MUST(packet && an_inchanPass(second, packet, 0) == AN_OK);
    }
    MUST(room() == before - 5);
    MUST(an_inchanDestroy(second) == AN_OK);
    MUST(room() == before);
    an_PacketBuffer_t packet = an_pktbufAlloc(top);
    MUST(an_inchanPass(second, packet, 0) == AN_ESTALE && an_pktbufFree(packet) == AN_OK);
    count_up(&go_on);
}

int main(void)
{
    struct an_ThreadPoolSpec threads = {.maxthreads = 2};
    MUST(node = an_nodeConnect(0, &(struct an_NodeSpec){.cred = an_credCreate(0, "ee"), .threads = &threads}));
    MUST(top = an_domainSelf(node));
    MUST(flow = an_flowCreate(0, top, &(struct an_FlowSpec){.maxthreads = 1, .state = &held}));
    FAILS(AN_EINVAL, an_inchanCreate(0, flow, 0, "passed", "*:5000", 0, of_flow, 0));
    FAILS(AN_EINVAL, an_inchanCreate(0, flow, 0, "passed/checksum", 0, 0, of_flow, 0));
    FAILS(AN_ENOENT, an_outchanCreate(0, flow, "passed", 0, 0));
    MUST(first = an_inchanCreate(0, top, 0, "if1/anep", "type 240", 0, of_port, 0));
    MUST(second = an_inchanCreate(0, flow, 0, "passed", 0, 0, of_flow, &held));
    MUST(third = an_inchanCreate(0, top, 0, "passed", 0, 0, at_last, 0));
    an_OutChan_t out = an_outchanCreate(0, top, "if0/anep", "type 240", 0);
    MUST(out);
    FAILS(AN_EINVAL, an_cutchanConcat(0, third, out));
    FAILS(AN_EINVAL, an_cutchanCreate(0, top, 0, "passed", 0, "if0/ip", "*", 0));
    struct an_End to = {.address = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 2}};
    for (int at = 0; at < 3; at++) {
        an_PacketBuffer_t packet = an_pktbufAlloc(top);
        MUST(packet && an_pktbufResize(packet, 4) == AN_OK);
        memcpy(an_pktbufData(packet), "pass", 4);
        MUST(an_outchanSend(out, &to, packet) == AN_OK);
        await_count(&arrived, at + 1);
    }
    waiting();
    puts("ok");
    return an_nodeDisconnect(node);
}
