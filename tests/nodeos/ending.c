/* Ended means ended: after an_domainTerminate or an_domainDestroy, no function of the domain or of one below it runs.
 * That holds whoever closed it: this thread, the library's thread on word of the node, a function of the domain's own,
 * or two of them at once. Prints "ok" at the end. */
#include "await.h"
#include <anode/nodeos.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 400, BUSY = 3 };

static an_Node_t node;
static an_OutChan_t out;
/* Functions that run now, and that have begun. */
static atomic_int running, begun, ended;
static _Atomic(an_Domain_t) one, other;
static atomic_int together;

static void die(const char *what, int round)
{
    printf("%s in round %d: %s; %d run\n", what, round, an_strerror(an_error()), atomic_load(&running));
    exit(1);
}

#define MUST(round, ...) do { if (!(__VA_ARGS__)) die(#__VA_ARGS__, round); } while (0)

/* Works for a while: longer than a call to the node takes. */
static void work(void)
{
    atomic_fetch_add(&running, 1);
    count_up(&begun);
    for (int turn = 0; turn < 200; turn++)
        sched_yield();
    atomic_fetch_sub(&running, 1);
}

static void on_run(void *arg)
{
    (void)arg;
    work();
}

static void on_event(an_Event_t event, void *arg)
{
    (void)event, (void)arg;
    work();
}

static void on_packet(an_InChan_t in, an_PacketBuffer_t packet, const struct an_Ends *ends, void *arg)
{
    (void)in, (void)ends, (void)arg;
    work();
    an_pktbufFree(packet);
}

static void on_end(an_Domain_t domain, void *arg)
{
    (void)domain, (void)arg;
    work();
    atomic_fetch_add(&ended, 1);
}

/* Ends its own domain: all others have returned when the call does. */
static void on_run_end_own(void *arg)
{
    count_up(&begun);
    int error = an_domainTerminate((an_Domain_t)arg);
    if ((error && error != AN_ESTALE) || atomic_load(&running))
        die("terminate by a function", -1);
}

/* Two functions of two domains end each other's. */
static void on_run_end_other(void *arg)
{
    count_up(&together);
    await_count(&together, 2);
    an_domainTerminate(arg == (void *)&one ? atomic_load(&other) : atomic_load(&one));
    atomic_fetch_sub(&running, 1);
}

static an_Domain_t make(an_Domain_t above, int round)
{
    struct an_DomainSpec spec = {.endfunc = on_end};
    an_Domain_t domain = an_domainCreate(0, above, &(struct an_ThreadPoolSpec){.maxthreads = BUSY}, &spec);
    MUST(round, domain);
    return domain;
}

static void send_one(void)
{
    an_PacketBuffer_t packet = an_pktbufAlloc(an_domainSelf(node));
    if (packet && (an_pktbufResize(packet, 64) || an_outchanSend(out, 0, packet)))
        an_pktbufFree(packet);
}

static void *terminate(void *arg)
{
    int error = an_domainTerminate((an_Domain_t)arg);
    if (error && error != AN_ESTALE)
        die("terminate beside", -1);
    if (atomic_load(&running))
        die("terminate beside returned early", -1);
    return 0;
}

/* One of these ends it, and this thread looks when its own call returns. */
static void round_of(int round)
{
    an_Domain_t first = an_domainSelf(node), domain = make(first, round), below = make(domain, round);
    atomic_store(&begun, 0);
    atomic_store(&ended, 0);
    MUST(round, an_inchanCreate(0, below, 0, "if1/anep", "type 211", 0, on_packet, 0));
    MUST(round, an_threadCreate(domain, on_run, 0) == AN_OK && an_threadCreate(below, on_run, 0) == AN_OK);
    MUST(round, an_eventSchedule(0, domain, 0, on_event, 0));
    send_one();
    await_count(&begun, 2);
    pthread_t beside;
    int helped = round % 4 == 1;
    if (helped)
        MUST(round, pthread_create(&beside, 0, terminate, (void *)domain) == 0);
    if (round % 4 == 2)
        MUST(round, an_threadCreate(domain, on_run_end_own, (void *)domain) == AN_OK);
    if (round % 4 != 3) {
        int error = an_domainTerminate(domain);
        MUST(round, error == AN_OK || error == AN_ESTALE);
        MUST(round, atomic_load(&running) == 0 && atomic_load(&ended) == 2);
    }
    MUST(round, an_domainDestroy(domain) == AN_OK);
    MUST(round, atomic_load(&running) == 0 && atomic_load(&ended) == 2);
    if (helped)
        pthread_join(beside, 0);
    MUST(round, an_domainDestroy(below) == AN_OK || an_error() == AN_ESTALE);
}

/* Neither waits for the other for ever; who is outside waits for both. */
static void of_each_other(int round)
{
    an_Domain_t first = an_domainSelf(node);
    atomic_store(&together, 0);
    atomic_store(&one, make(first, round));
    atomic_store(&other, make(first, round));
    atomic_fetch_add(&running, 2);
    MUST(round, an_threadCreate(one, on_run_end_other, (void *)&one) == AN_OK);
    MUST(round, an_threadCreate(other, on_run_end_other, (void *)&other) == AN_OK);
    await_count(&together, 2);
    an_Domain_t both[2] = {one, other};
    for (int at = 0; at < 2; at++)
        MUST(round, an_domainDestroy(both[at]) == AN_OK);
    MUST(round, atomic_load(&running) == 0);
}

int main(void)
{
    struct an_ThreadPoolSpec threads = {.maxthreads = 2};
    node = an_nodeConnect(0, &(struct an_NodeSpec){.cred = an_credCreate(0, "ee"), .threads = &threads});
    MUST(-1, node);
    MUST(-1, out = an_outchanCreate(0, an_domainSelf(node), "if0/anep", "type 211", 0));
    for (int round = 0; round < ROUNDS; round++)
        round_of(round);
    for (int round = 0; round < 50; round++)
        of_each_other(round);
    puts("ok");
    fflush(stdout);
    return an_nodeDisconnect(node);
}
