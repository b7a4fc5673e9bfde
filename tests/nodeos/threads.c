/* Threads of a program: their names, their permission, their cost. One hangs, and takes its domain with it and nothing
 * else. A packet sent by if0 comes in by if1. Prints "ok" at the end. */
#include "await.h"
#include <anode/nodeos.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static an_Node_t node;
static an_Domain_t domain;
static an_OutChan_t out;
static atomic_int ended, came, slow;
static _Atomic(an_Thread_t) names[2];
static atomic_int named, may_leave;

static void die(const char *what)
{
    printf("%s: %s\n", what, an_strerror(an_error()));
    exit(1);
}

#define MUST(...) do { if (!(__VA_ARGS__)) die(#__VA_ARGS__); } while (0)

static void on_end(an_Domain_t which, void *arg)
{
    (void)which, (void)arg;
    count_up(&ended);
}

/* No thread of the process's can be ended but by its end: it waits for that. */
static void hang(void)
{
    for (;;)
        pause();
}

static void hang_on_packet(an_InChan_t in, an_PacketBuffer_t packet, const struct an_Ends *ends, void *arg)
{
    (void)in, (void)packet, (void)ends, (void)arg;
    hang();
}

static void hang_on_event(an_Event_t event, void *arg)
{
    (void)event, (void)arg;
    hang();
}

static void count(an_InChan_t in, an_PacketBuffer_t packet, const struct an_Ends *ends, void *arg)
{
    (void)in, (void)ends, (void)arg;
    count_up(&came);
    an_pktbufFree(packet);
}

/* Takes long, but not for one packet. */
static void work_slowly(void *arg)
{
    (void)arg;
    usleep(600000);
    count_up(&slow);
}

static void send_one(void)
{
    struct an_End to = {.address = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 2}};
    an_PacketBuffer_t packet;
    MUST(packet = an_pktbufAlloc(domain));
    MUST(an_pktbufResize(packet, 8) == AN_OK && an_outchanSend(out, &to, packet) == AN_OK);
}

static an_Domain_t below(void)
{
    an_Domain_t made;
    struct an_ThreadPoolSpec threads = {.maxthreads = 1, .holdms = 300};
    MUST(made = an_domainCreate(0, domain, &threads, &(struct an_DomainSpec){.endfunc = on_end}));
    return made;
}

static void say(void *arg)
{
    atomic_store((_Atomic(an_Thread_t) *)arg, an_threadSelf());
    count_up(&named);
    await_count(&may_leave, 1);
    an_threadYield();
    MUST(an_threadExit() == AN_OK);
}

/* Two threads at once have two names; when they have left there is room for this one. */
static void names_and_leave(void)
{
    an_Domain_t pair = an_domainCreate(0, domain, &(struct an_ThreadPoolSpec){.maxthreads = 2}, 0);
    MUST(pair && an_threadCreate(pair, say, &names[0]) == AN_OK && an_threadCreate(pair, say, &names[1]) == AN_OK);
    await_count(&named, 2);
    MUST(an_threadEnter(pair, 0) == AN_ELIMIT);
    count_up(&may_leave);
    while (an_threadEnter(pair, 0) != AN_OK)
        MUST(an_error() == AN_ELIMIT);
    MUST(names[0] != names[1] && names[0] && names[1]);
    MUST(an_domainDestroy(pair) == AN_OK);
}

/* The node sees 128 threads of a process, of which two are the first domain's. */
static void more_than_are_seen(void)
{
    static an_Domain_t all[64];
    int made = 0;
    while (made < 64 && (all[made] = an_domainCreate(0, domain, &(struct an_ThreadPoolSpec){.maxthreads = 8}, 0)))
        made++;
    MUST(an_error() == AN_ELIMIT && made == 15);
    while (made)
        MUST(an_domainDestroy(all[--made]) == AN_OK);
}

static uint64_t own_time(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return used.tv_sec * 1000000000ull + used.tv_nsec;
}

static void costs(void)
{
    struct an_Usage usage;
    uint64_t before = own_time();
    while (own_time() < before + 30000000)
        ;
    before = own_time();
    MUST(an_domainUsage(domain, &usage) == AN_OK && usage.cpu_ns >= before);
    MUST(usage.cpu_ns <= own_time() + 5000000000ull);
}

int main(void)
{
    an_Cred_t cred = an_credCreate(0, "ee");
    struct an_ThreadPoolSpec threads = {.maxthreads = 2, .holdms = 300};
    MUST(node = an_nodeConnect(0, &(struct an_NodeSpec){.cred = cred, .threads = &threads}));
    domain = an_domainSelf(node);
    MUST(out = an_outchanCreate(0, domain, "if0/anep", "type 210", 0));
    names_and_leave();
    more_than_are_seen();
    costs();
    MUST(an_threadCreate(domain, work_slowly, 0) == AN_OK);
    /* By a packet. */
    an_Domain_t first = below();
    MUST(an_inchanCreate(0, first, 0, "if1/anep", "type 210", 0, hang_on_packet, 0));
    send_one();
    /* To terminate it would be to wait for a function that never returns. */
    MUST(an_domainWait(first) == AN_OK && an_domainUsage(first, &(struct an_Usage){0}) == AN_ESTALE);
    /* By an event. */
    an_Domain_t second = below();
    MUST(an_eventSchedule(0, second, 1, hang_on_event, 0));
    MUST(an_domainWait(second) == AN_OK);
    await_count(&ended, 2);
    /* The others live, and what was asked for by the program may take its time. */
    an_Domain_t third = below();
    MUST(an_inchanCreate(0, third, 0, "if1/anep", "type 210", 0, count, 0));
    await_count(&slow, 1);
    send_one();
    await_count(&came, 1);
    MUST(atomic_load(&ended) == 2);
    puts("ok");
    fflush(stdout);
    /* Two of its threads never return, so it does not wait for them. */
    _exit(0);
}
