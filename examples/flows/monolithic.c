/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * One a-flow for all users: it asks for everything that comes for the service, and finds users in its own table. At most one
 * thread works for it at a time, its timer's too, so the table needs no lock.
 *
 *     cc -I sdk examples/flows/monolithic.c -lanode1 -o monolithic
 *     ANODE_NODEOS=/run/anode/r/nodeos.sock ./monolithic ROLE PROTOCOL ADDRESS PORT IDLE-MS
 *     … ./monolithic ee if0/ip/udp 10.0.1.2 5000 60000
 */
#include "user.h"

enum { PLACES = 4096 };

struct user {
    struct an_End end;
    struct count count;
};

static an_Node_t node;
static an_OutChan_t out;
static uint64_t idle_ms;
static struct user users[PLACES];

/* A user's place, in which there may be nobody yet; 0: there is none. Whoever is quiet gives way. */
static struct user *place_of(const struct an_End *end)
{
    uint32_t hash = end->port, word;
    for (int at = 0; at < 16; at += 4) {
        memcpy(&word, end->address + at, 4);
        hash = (hash ^ word) * 0x9e3779b1u;
    }
    struct user *empty = 0;
    for (int step = 0; step < 16; step++) {
        struct user *user = &users[((hash >> 16) + step) % PLACES];
        int same = user->end.port == end->port && !memcmp(user->end.address, end->address, 16);
        if (user->count.packets && same)
            return user;
        if (!empty && (!user->count.packets || is_quiet(node, &user->count, idle_ms)))
            empty = user;
    }
    if (empty)
        *empty = (struct user){.end = *end};
    return empty;
}

static void deliver(an_InChan_t in, an_PacketBuffer_t packet, const struct an_Ends *ends, void *arg)
{
    (void)in, (void)arg;
    struct user *user = place_of(&ends->source);
    if (!user) {
        an_pktbufFree(packet);
        return;
    }
    answer(node, &user->count, packet);
    send_or_free(out, &ends->source, packet);
}

/* Forgets who is quiet. */
static void sweep(an_Event_t event, void *arg)
{
    (void)event;
    for (struct user *user = users; user < users + PLACES; user++)
        if (user->count.packets && is_quiet(node, &user->count, idle_ms))
            memset(user, 0, sizeof *user);
    an_eventSchedule(0, an_domainSelf(node), idle_ms, sweep, arg);
}

int main(int argc, char **argv)
{
    if (argc != 6 || !(idle_ms = strtoull(argv[5], 0, 10)))
        return fprintf(stderr, "usage: %s ROLE PROTOCOL ADDRESS PORT IDLE-MS\n", argv[0]), 2;
    an_Cred_t cred = an_credCreate(0, argv[1]);
    if (!(node = an_nodeConnect(0, &(struct an_NodeSpec){.title = "monolithic", .cred = cred})))
        return failed("connect");
    char own[64], back[64];
    snprintf(own, sizeof own, "%s:%s", argv[3], argv[4]);
    snprintf(back, sizeof back, "*:%s -> *:*", argv[4]);
    struct an_FlowSpec spec = {.title = "all users", .ntimers = 1};
    an_Domain_t flow = an_flowCreate(0, an_domainSelf(node), &spec);
    if (!flow)
        return failed("a-flow");
    if (!(out = an_outchanCreate(0, flow, argv[2], back, 0)))
        return failed(back);
    if (!an_inchanCreate(0, flow, 0, argv[2], own, 0, deliver, 0))
        return failed(own);
    if (!an_eventSchedule(0, flow, idle_ms, sweep, 0))
        return failed("timer");
    puts("ready");
    fflush(stdout);
    an_domainWait(flow);
    return an_nodeDisconnect(node);
}
