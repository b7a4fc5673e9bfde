/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * An a-flow for each user: what comes for the service goes to a control a-flow, which begins one for whoever is new. That one
 * asks for its user's packets, so the node finds users, gives each a share, and has them take turns. Who is quiet ends by a timer of
 * its own.
 *
 *     cc -I sdk examples/flows/per_user.c -lanode1 -lpthread -o per_user
 *     ANODE_NODEOS=/run/anode/r/nodeos.sock ./per_user ROLE PROTOCOL ADDRESS PORT IDLE-MS
 *     … ./per_user ee if0/ip/udp 10.0.1.2 5000 60000
 */
#include "user.h"
#include <stdatomic.h>

enum { BUCKETS = 1024 };

struct user {
    struct an_End end;
    an_Domain_t flow;
    an_InChan_t in;
    an_OutChan_t out;
    struct count count;
    atomic_int gone;
    /* Others of its bucket, and others that have ended. */
    struct user *same, *next;
};

static an_Node_t node;
static an_Domain_t top;
static const char *protocol, *own;
static int port;
static uint64_t idle_ms;
/* All users; only functions of the control a-flow look, and it has one thread at a time. */
static struct user *users[BUCKETS];
/* Users whose a-flows have ended, by themselves or by an operator's doing. */
static _Atomic(struct user *) ended;

static void deliver(an_InChan_t in, an_PacketBuffer_t packet, const struct an_Ends *ends, void *arg)
{
    struct user *user = arg;
    (void)in, (void)ends;
    answer(node, &user->count, packet);
    send_or_free(user->out, 0, packet);
}

static void quiet(an_Event_t event, void *arg)
{
    struct user *user = arg;
    (void)event;
    if (is_quiet(node, &user->count, idle_ms) || !an_eventSchedule(0, user->flow, idle_ms, quiet, user))
        an_domainTerminate(user->flow);
}

/* Another function of it may run now, so whoever waits for that frees it. */
static void on_end(an_Domain_t flow, void *state)
{
    struct user *user = state;
    (void)flow;
    atomic_store(&user->gone, 1);
    user->next = atomic_load(&ended);
    while (!atomic_compare_exchange_weak(&ended, &user->next, user))
        ;
}

static struct user **bucket_of(const struct an_End *end)
{
    uint32_t hash = end->port, word;
    for (int at = 0; at < 16; at += 4) {
        memcpy(&word, end->address + at, 4);
        hash = (hash ^ word) * 0x9e3779b1u;
    }
    return &users[hash >> 22];
}

static void sweep(an_Event_t event, void *arg)
{
    (void)event;
    for (struct user *user = atomic_exchange(&ended, 0), *next; user; user = next) {
        next = user->next;
        an_domainDestroy(user->flow);
        for (struct user **at = bucket_of(&user->end); *at; at = &(*at)->same)
            if (*at == user) {
                *at = user->same;
                break;
            }
        free(user);
    }
    an_eventSchedule(0, an_domainSelf(node), idle_ms, sweep, arg);
}

/* An a-flow for a user, all but its channel: then it counts already who came first. */
static struct user *begin(const struct an_End *end, const char *text)
{
    char back[128];
    struct user *user = calloc(1, sizeof *user), **bucket = bucket_of(end);
    if (!user)
        return 0;
    user->end = *end;
    struct an_FlowSpec spec = {.title = text, .ntimers = 1, .timer_ms = 10, .state = user, .endfunc = on_end};
    if (!(user->flow = an_flowCreate(0, top, &spec))) {
        free(user);
        return 0;
    }
    user->same = *bucket;
    *bucket = user;
    snprintf(back, sizeof back, "*:%d -> %s", port, text);
    user->out = an_outchanCreate(0, user->flow, protocol, back, 0);
    if (!user->out || !an_eventSchedule(0, user->flow, idle_ms, quiet, user)) {
        an_domainTerminate(user->flow);
        return 0;
    }
    return user;
}

/* Hands a packet to the a-flow of a user who has one; 0 if there is none that lives. Behind the first of a burst the others still come to
 * the control a-flow: they go on into the channel of their user. */
static int hand_over(const struct an_Ends *ends, an_PacketBuffer_t packet)
{
    const struct an_End *end = &ends->source;
    struct user *user = *bucket_of(end);
    for (; user; user = user->same)
        if (!user->gone && user->end.port == end->port && !memcmp(user->end.address, end->address, 16))
            break;
    if (!user)
        return 0;
    /* It may have ended meanwhile, or have as much to do as may wait. */
    if (an_inchanPass(user->in, packet, ends))
        an_pktbufFree(packet);
    return 1;
}

/* Somebody new. */
static void control(an_InChan_t in, an_PacketBuffer_t packet, const struct an_Ends *ends, void *arg)
{
    char address[INET6_ADDRSTRLEN], text[80], both[160];
    const struct an_End *from = &ends->source;
    int mapped = !memcmp(from->address, (uint8_t[12]){[10] = 0xff, [11] = 0xff}, 12);
    (void)in, (void)arg;
    if (hand_over(ends, packet))
        return;
    inet_ntop(mapped ? AF_INET : AF_INET6, from->address + (mapped ? 12 : 0), address, sizeof address);
    snprintf(text, sizeof text, mapped ? "%s:%d" : "[%s]:%d", address, from->port);
    snprintf(both, sizeof both, "%s -> %s", text, own);
    struct user *user = begin(from, text);
    if (!user) {
        /* As many as the role grants. */
        an_pktbufFree(packet);
        return;
    }
    an_OutChan_t out = user->out;
    answer(node, &user->count, packet);
    if (!(user->in = an_inchanCreate(0, user->flow, 0, protocol, both, 0, deliver, user))) {
        an_domainTerminate(user->flow);
        an_pktbufFree(packet);
        return;
    }
    send_or_free(out, 0, packet);
}

int main(int argc, char **argv)
{
    if (argc != 6 || !(idle_ms = strtoull(argv[5], 0, 10)))
        return fprintf(stderr, "usage: %s ROLE PROTOCOL ADDRESS PORT IDLE-MS\n", argv[0]), 2;
    an_Cred_t cred = an_credCreate(0, argv[1]);
    struct an_ThreadPoolSpec threads = {.maxthreads = 2};
    if (!(node = an_nodeConnect(0, &(struct an_NodeSpec){.title = "per-user", .cred = cred, .threads = &threads})))
        return failed("connect");
    char service[64];
    snprintf(service, sizeof service, "%s:%s", argv[3], argv[4]);
    protocol = argv[2], own = service, port = atoi(argv[4]), top = an_domainSelf(node);
    struct an_FlowSpec spec = {.title = "control", .ntimers = 1};
    an_Domain_t flow = an_flowCreate(0, top, &spec);
    if (!flow)
        return failed("a-flow");
    if (!an_eventSchedule(0, flow, idle_ms, sweep, 0))
        return failed("timer");
    if (!an_inchanCreate(0, flow, 0, protocol, own, 0, control, 0))
        return failed(own);
    puts("ready");
    fflush(stdout);
    an_domainWait(flow);
    return an_nodeDisconnect(node);
}
