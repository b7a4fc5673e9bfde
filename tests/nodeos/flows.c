/* A-flows: leaf domains whose functions two threads of the domain above run, in turns and in bounds. A packet sent by if0
 * comes in by if1. Prints "ok" at the end. */
#include "await.h"
#include <anode/nodeos.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MS = 1000000 };

/* What each a-flow of this program has. */
struct user {
    uint32_t number;
    an_Domain_t flow;
    an_OutChan_t out;
    uint64_t due;
    atomic_int packets, timers, ends;
};

static an_Node_t node;
static an_Domain_t top;
static atomic_int blocked, second, released, pairs;

static void die(int line, const char *what)
{
    printf("line %d: %s: %s\n", line, what, an_strerror(an_error()));
    exit(1);
}

#define MUST(...) do { if (!(__VA_ARGS__)) die(__LINE__, #__VA_ARGS__); } while (0)
#define FAILS(error, ...) MUST(!(__VA_ARGS__) && an_error() == error)

static void ended(an_Domain_t flow, void *state)
{
    struct user *user = state;
    MUST(flow == user->flow);
    count_up(&user->ends);
}

static struct user *begin(struct an_FlowSpec spec)
{
    static uint32_t numbers;
    struct user *user = calloc(1, sizeof *user);
    user->number = ++numbers;
    spec.state = user;
    spec.endfunc = ended;
    MUST(user->flow = an_flowCreate(0, top, &spec));
    return user;
}

static void is_own(an_Domain_t flow, struct user *user)
{
    MUST(flow == user->flow && an_domainSelf(node) == flow && an_flowState(flow) == user && an_flowState(0) == user);
}

/* ---- bounds: at most so many threads at once, and turns ---- */

static void block(an_Domain_t flow, void *state)
{
    is_own(flow, state);
    count_up(&blocked);
    await_count(&released, 1);
    MUST(atomic_load(&second) == 0);
}

static void second_one(an_Domain_t flow, void *state)
{
    is_own(flow, state);
    count_up(&second);
}

static void release(an_Domain_t flow, void *state)
{
    is_own(flow, state);
    count_up(&released);
}

static void pair(an_Domain_t flow, void *state)
{
    is_own(flow, state);
    count_up(&pairs);
    await_count(&pairs, 2);
}

static void end_itself(an_Domain_t flow, void *state)
{
    is_own(flow, state);
    MUST(an_domainDestroy(flow) == AN_OK);
}

static void bounds(void)
{
    struct user *one = begin((struct an_FlowSpec){.title = "one"}), *other = begin((struct an_FlowSpec){0});
    /* Of two threads one works for the first, which may have no more; so the other works for the second. */
    MUST(an_flowRun(one->flow, block) == AN_OK);
    MUST(an_flowRun(one->flow, second_one) == AN_OK);
    await_count(&blocked, 1);
    MUST(an_flowRun(other->flow, release) == AN_OK);
    await_count(&second, 1);
    struct user *two = begin((struct an_FlowSpec){.maxthreads = 2});
    MUST(an_flowRun(two->flow, pair) == AN_OK && an_flowRun(two->flow, pair) == AN_OK);
    await_count(&pairs, 2);
    MUST(an_flowRun(two->flow, end_itself) == AN_OK);
    await_count(&two->ends, 1);
    while (an_domainUsage(two->flow, &(struct an_Usage){0}) != AN_ESTALE)
        ;
    MUST(an_domainTerminate(one->flow) == AN_OK && an_domainDestroy(one->flow) == AN_OK && atomic_load(&one->ends) == 1);
    MUST(an_domainDestroy(other->flow) == AN_OK && atomic_load(&other->ends) == 1);
}

/* ---- what is refused ---- */

static void refusals(void)
{
    struct user *user = begin((struct an_FlowSpec){0});
    FAILS(AN_EINVAL, an_flowCreate(0, user->flow, 0));
    FAILS(AN_EINVAL, an_domainCreate(0, user->flow, 0, 0));
    MUST(an_threadEnter(user->flow, 0) == AN_EINVAL);
    FAILS(AN_EINVAL, an_flowCreate(0, 0, 0));
    FAILS(AN_EINVAL, an_flowCreate(0, top, &(struct an_FlowSpec){.maxthreads = -1}));
    FAILS(AN_EINVAL, an_flowCreate(0, top, &(struct an_FlowSpec){.maxthreads = 65}));
    FAILS(AN_ELIMIT, an_flowCreate(0, top, &(struct an_FlowSpec){.maxthreads = 9}));
    FAILS(AN_EINVAL, an_flowCreate(0, top, &(struct an_FlowSpec){.timer_ms = 86400001}));
    FAILS(AN_ENOENT, an_flowCreate(0, top, &(struct an_FlowSpec){.cred = an_credCreate(0, "nobody")}));
    FAILS(AN_EINVAL, an_flowState(top));
    FAILS(AN_EINVAL, an_flowState(0));
    MUST(an_flowRun(top, release) == AN_EINVAL && an_flowRun(user->flow, 0) == AN_EINVAL);
    MUST(an_domainDestroy(user->flow) == AN_OK);
    MUST(an_flowRun(user->flow, release) == AN_ESTALE);
    FAILS(AN_ESTALE, an_flowState(user->flow));
    /* As many as the role grants. */
    struct user *made[64];
    int count = 0;
    while ((made[count] = calloc(1, sizeof *made[0]), made[count]->flow = an_flowCreate(0, top, 0)))
        count++;
    MUST(an_error() == AN_ELIMIT && count >= 32);
    while (count--)
        MUST(an_domainDestroy(made[count]->flow) == AN_OK);
}

/* ---- packets and timers ---- */

static void came(an_InChan_t in, an_PacketBuffer_t packet, const struct an_Ends *ends, void *arg)
{
    struct user *user = arg;
    size_t length;
    (void)in, (void)ends;
    is_own(user->flow, user);
    MUST(an_pktbufLength(packet, &length) == AN_OK && length == 4 && !memcmp(an_pktbufData(packet), &user->number, 4));
    MUST(an_pktbufFree(packet) == AN_OK);
    count_up(&user->packets);
}

/* A timer's function does what a packet's may: it sends, and has itself called again. */
static void tick(an_Event_t event, void *arg)
{
    struct user *user = arg;
    uint64_t now;
    (void)event;
    is_own(user->flow, user);
    MUST(an_timeNow(node, &now) == AN_OK && now >= user->due);
    struct an_End to = {.address = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 2}};
    an_PacketBuffer_t packet = an_pktbufAlloc(user->flow);
    MUST(packet && an_pktbufResize(packet, 4) == AN_OK);
    memcpy(an_pktbufData(packet), &user->number, 4);
    MUST(an_outchanSend(user->out, &to, packet) == AN_OK);
    if (atomic_load(&user->timers) < 2) {
        user->due = now + 3 * MS;
        MUST(an_eventSchedule(0, user->flow, 3, tick, user));
    }
    count_up(&user->timers);
}

static void packets_and_timers(void)
{
    struct user *users[16];
    for (int at = 0; at < 16; at++) {
        struct user *user = users[at] = begin((struct an_FlowSpec){.ntimers = 1, .timer_ms = at % 2 ? 20 : 0});
        uint32_t number = user->number;
        struct an_KeyTuple tuple = {.length = 4, .value = __builtin_bswap32(number), .mask = 0xffffffff};
        struct an_DemuxKey key = {.ntuples = 1, .tuples = &tuple};
        /* Four keys of one type can be told apart. */
        char type[32];
        sprintf(type, "type %d", 210 + at / 4);
        MUST(user->out = an_outchanCreate(0, user->flow, "if0/anep", type, 0));
        MUST(an_inchanCreate(0, user->flow, &key, "if1/anep", type, 0, came, user));
        MUST(an_timeNow(node, &user->due) == AN_OK);
        /* The first is taken back, and there is room for another. */
        an_Event_t event = an_eventSchedule(0, user->flow, 1000000, tick, user);
        MUST(event);
        FAILS(AN_ELIMIT, an_eventSchedule(0, user->flow, 1, tick, user));
        MUST(an_eventCancel(event) == AN_OK);
        MUST(an_eventSchedule(0, user->flow, 1, tick, user));
    }
    for (int at = 0; at < 16; at++) {
        await_count(&users[at]->timers, 3);
        await_count(&users[at]->packets, 3);
        struct an_Usage usage;
        MUST(an_domainUsage(users[at]->flow, &usage) == AN_OK && usage.packets == 3 && usage.forwarded == 3);
        MUST(an_domainDestroy(users[at]->flow) == AN_OK && atomic_load(&users[at]->ends) == 1);
    }
}

/* ---- one that hangs ---- */

static void hang(an_Event_t event, void *arg)
{
    (void)event, (void)arg;
    for (;;)
        pause();
}

static void hangs(void)
{
    struct user *user = begin((struct an_FlowSpec){.holdms = 300}), *other = begin((struct an_FlowSpec){0});
    MUST(an_eventSchedule(0, user->flow, 1, hang, user));
    MUST(an_domainWait(user->flow) == AN_OK);
    await_count(&user->ends, 1);
    /* Another thread is left, and the other a-flows. */
    int before = atomic_load(&second);
    MUST(an_flowRun(other->flow, second_one) == AN_OK);
    await_count(&second, before + 1);
    MUST(atomic_load(&other->ends) == 0);
}

int main(void)
{
    an_Cred_t cred = an_credCreate(0, "ee");
    struct an_ThreadPoolSpec threads = {.maxthreads = 2};
    MUST(node = an_nodeConnect(0, &(struct an_NodeSpec){.cred = cred, .threads = &threads}));
    top = an_domainSelf(node);
    bounds();
    refusals();
    packets_and_timers();
    hangs();
    puts("ok");
    fflush(stdout);
    /* One of its threads never returns, so it does not wait for it. */
    _exit(0);
}
