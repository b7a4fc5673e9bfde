/* 100,000 a-flows (or MANY), each with a channel, at one thread: packets find theirs, some end, the rest end with the process.
 * Prints what it took, and "ok" at the end. */
#include "await.h"
#include <anode/nodeos.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef MANY
#define MANY 100000
#endif

enum { SENT = 2000, ENDED = 200 };

static an_Node_t node;
static an_Domain_t top, flows[MANY];
static atomic_int came;
static unsigned char seen[MANY];

static void die(int line, const char *what)
{
    printf("line %d: %s: %s\n", line, what, an_strerror(an_error()));
    exit(1);
}

#define MUST(...) do { if (!(__VA_ARGS__)) die(__LINE__, #__VA_ARGS__); } while (0)

static double seconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static void deliver(an_InChan_t in, an_PacketBuffer_t packet, const struct an_Ends *ends, void *arg)
{
    uint32_t number;
    (void)in, (void)ends;
    memcpy(&number, an_pktbufData(packet), 4);
    MUST(arg == &seen[number] && an_flowState(0) == arg && an_domainSelf(node) == flows[number]);
    __atomic_fetch_add(&seen[number], 1, __ATOMIC_RELEASE);
    MUST(an_pktbufFree(packet) == AN_OK);
    count_up(&came);
}

/* Four keys of one type can be told apart. */
static const char *type_of(uint32_t number, char *type)
{
    sprintf(type, "type %u", 30000 + number / 4);
    return type;
}

static void create(uint32_t number)
{
    struct an_KeyTuple tuple = {.length = 4, .value = __builtin_bswap32(number), .mask = 0xffffffff};
    struct an_DemuxKey key = {.ntuples = 1, .tuples = &tuple};
    struct an_NetSpec net = {.npbufs = 16};
    char type[32];
    MUST(flows[number] = an_flowCreate(0, top, &(struct an_FlowSpec){.state = &seen[number]}));
    MUST(an_inchanCreate(0, flows[number], &key, "if1/anep", type_of(number, type), &net, deliver, &seen[number]));
}

/* Sends a packet to an a-flow until it has come: a neighbour that is much at work may be refused one (entry-share). */
static void exchange(uint32_t number)
{
    char type[32];
    struct an_End to = {.address = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 2}};
    an_OutChan_t out = an_outchanCreate(0, top, "if0/anep", type_of(number, type), 0);
    unsigned char before = seen[number];
    MUST(out);
    do {
        int so_far = atomic_load(&came);
        an_PacketBuffer_t packet = an_pktbufAlloc(top);
        MUST(packet && an_pktbufResize(packet, 4) == AN_OK);
        memcpy(an_pktbufData(packet), &number, 4);
        MUST(an_outchanSend(out, &to, packet) == AN_OK);
        syscall(SYS_futex, &came, FUTEX_WAIT_PRIVATE, so_far, &(struct timespec){.tv_nsec = 200000000}, (void *)0, 0);
    } while (__atomic_load_n(&seen[number], __ATOMIC_ACQUIRE) == before);
    MUST(an_outchanDestroy(out) == AN_OK);
}

int main(void)
{
    struct an_NodeSpec spec = {.cred = an_credCreate(0, "wide")};
    MUST(node = an_nodeConnect(0, &spec));
    top = an_domainSelf(node);
    double began = seconds(CLOCK_MONOTONIC), used = seconds(CLOCK_PROCESS_CPUTIME_ID);
    for (uint32_t number = 0; number < MANY; number++)
        create(number);
    printf("%d a-flows created in %.2f s, %.2f s of it this process's\n", MANY, seconds(CLOCK_MONOTONIC) - began,
           seconds(CLOCK_PROCESS_CPUTIME_ID) - used);
    for (int count = 0; count < SENT; count++)
        exchange(count * 7919u % MANY);
    int found = 0;
    for (int number = 0; number < MANY; number++)
        found += seen[number];
    MUST(found >= SENT);
    began = seconds(CLOCK_MONOTONIC);
    for (int number = 0; number < ENDED; number++)
        MUST(an_domainDestroy(flows[number]) == AN_OK);
    printf("%d ended in %.3f s\n", ENDED, seconds(CLOCK_MONOTONIC) - began);
    /* Those that are left are as they were, and what has ended may come again. */
    exchange(ENDED);
    create(0);
    exchange(0);
    began = seconds(CLOCK_MONOTONIC);
    MUST(an_nodeDisconnect(node) == AN_OK);
    printf("the others forgotten in %.2f s\n", seconds(CLOCK_MONOTONIC) - began);
    puts("ok");
    return 0;
}
