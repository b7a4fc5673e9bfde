/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * A module that misbehaves as its second word says, or tries all that modules can do. `module.c WORD [ROLE]`.
 */
#include <anode/nodeos.h>
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static an_Node_t node;
static an_Domain_t self, below;
static int came;

#define IS(condition) ((condition) ? (void)0 : wrong(#condition, __LINE__))

static void wrong(const char *what, int line)
{
    fprintf(stderr, "line %d: not %s: %s\n", line, what, an_strerror(an_error()));
    abort();
}

static void trap(an_Event_t event, void *arg)
{
    (void)event, (void)arg;
    __builtin_trap();
}

static void loop(an_Event_t event, void *arg)
{
    (void)event, (void)arg;
    for (;;)
        __asm__ volatile("");
}

static int deep(int n)
{
    volatile char room[64] = {n};
    return n ? room[0] + deep(n + 1) : 0;
}

static void stack(an_Event_t event, void *arg)
{
    (void)event, (void)arg;
    came = deep(1);
}

static void pointer(an_Event_t event, void *arg)
{
    (void)event, (void)arg;
    an_say((const char *)0x7ffffff0);
}

static void nothing(an_Event_t event, void *arg)
{
    (void)event, (void)arg;
}

static void function(an_Event_t event, void *arg)
{
    (void)event, (void)arg;
    an_eventSchedule(0, self, 0, (an_EventFunc)12345, 0);
}

static void finish(an_Event_t event, void *arg)
{
    (void)event;
    came += *(int *)arg;
    IS(an_domainSelf(node) == self);
    an_domainTerminate(below);
}

static void end(an_Domain_t domain, void *arg)
{
    (void)domain;
    came += *(int *)arg;
}

static void run(an_Domain_t flow, void *state)
{
    IS(an_domainSelf(node) == flow && an_flowState(0) == state && an_flowState(flow) == state);
    came += *(int *)state;
    IS(an_domainTerminate(flow) == AN_OK);
}

static void thread(void *arg)
{
    came += *(int *)arg;
}

static int key(const void *key, size_t keybytes, size_t bytes, uint64_t version, void *arg)
{
    IS(keybytes == 3 && !memcmp(key, "key", 3) && bytes == 5 && version > 0);
    came += *(int *)arg;
    return 0;
}

/* As far as no packet is needed for it. */
static void whole(void)
{
    static int one = 1, ten = 10, hundred = 100, thousand = 1000, more = 10000;
    uint64_t number = 0, version = 0, now[2];
    IS(an_timeNow(node, &now[0]) == AN_OK && an_timeNow(node, &now[1]) == AN_OK && now[1] >= now[0]);
    IS(!an_nodeConnect(0, 0) && an_error() == AN_ELIMIT);
    IS(an_domainDestroy((an_Domain_t)0x80001234) == AN_ESTALE && an_domainDestroy(0) == AN_EINVAL);
    IS(an_eventCancel((an_Event_t)node) == AN_EINVAL);
    IS(!strcmp(an_strerror(AN_ESTALE), an_strerror(AN_ESTALE)) && an_strerror(AN_ESTALE) != an_strerror(AN_EINVAL));
    IS(an_threadCreate(self, thread, &one) == AN_OK);
    below = an_domainCreate(0, self, 0, &(struct an_DomainSpec){.title = "below", .endfunc = end, .endarg = &ten});
    IS(below && an_eventSchedule(0, below, 0, nothing, 0));
    an_Domain_t flow = an_flowCreate(0, below, &(struct an_FlowSpec){.title = "flow", .state = &hundred, .endfunc = end});
    IS(flow && an_flowRun(flow, run) == AN_OK && an_flowRun(below, run) == AN_EINVAL);
    IS(!an_flowCreate(0, flow, 0) && an_error() == AN_EINVAL);
    IS(an_stateAdd(self, 7, 5, 1000, &number) == AN_OK && number == 5);
    an_Store_t store = an_storeOpen(0, self, 0, "names", &(struct an_StoreSpec){.bytes = 4096});
    IS(store && an_storePut(store, "key", 3, "value", 5, 0, &version) == AN_OK && version == 1);
    IS(an_storeRegister(store, "here", 4, "", 0, &version, 0) == AN_ECHANGED);
    IS(!an_streamConnect(0, self, "127.0.0.1:80") && an_error() == AN_EACCES && !an_streamListen(0, self, "") && an_error() == AN_EINVAL);
    IS(an_streamRead((an_Stream_t)store, &number, 8, 0, &(size_t){0}) == AN_EINVAL);
    IS(an_storeRegister(store, "here", 4, "", 0, 0, &version) == AN_OK && version == 2);
    char value[8];
    size_t bytes = 0;
    IS(an_storeGet(store, 0, "key", 3, value, sizeof value, &bytes, &version) == AN_OK && bytes == 5);
    IS(an_storeList(store, 0, "k", 1, key, &thousand) == AN_OK);
    an_PacketBuffer_t packet = an_pktbufAlloc(self);
    IS(packet && an_pktbufResize(packet, 100) == AN_OK && an_pktbufLength(packet, &bytes) == AN_OK && bytes == 100);
    char *data = an_pktbufData(packet);
    memset(data, 'x', 100);
    IS(an_pktbufTrim(packet, 10) == AN_OK && an_pktbufData(packet) == data + 10 && data[10] == 'x');
    IS(an_pktbufFree(packet) == AN_OK && an_pktbufFree(packet) == AN_ESTALE && !an_pktbufData(packet));
    IS(an_pktbufLength(packet, &bytes) == AN_ESTALE && bytes == 100);
    an_Classifier_t classifier = an_classifierCreate(0, self, 0);
    unsigned rule, rules[4];
    IS(classifier && an_classifierAdd(classifier, "udp port 53", 0, &rule) == AN_OK);
    IS(an_classifierMatch(classifier, "", 0, rules, 4, &bytes) == AN_OK && bytes == 0);
    IS(an_classifierAdd(classifier, "[ipp | *]", 0, &rule) == AN_EINVAL);
    char why[200];
    IS(an_classifierWhy(classifier, why, sizeof why, &bytes) == AN_OK && bytes > 0);
    struct an_GraphEdit edit = {.disconnect = "a -> b", .connect = "a -> c :: Counter -> b"};
    IS(an_graphEdit(self, "none", &edit, &rule) == AN_EACCES && an_graphWhy(why, sizeof why, &bytes) == AN_OK);
    IS(bytes > 0 && an_graphShow(self, "none", 0, 0, 0, 0) == AN_EACCES);
    char text[INET6_ADDRSTRLEN];
    IS(!strcmp(inet_ntop(AF_INET6, (uint8_t[16]){[0] = 0x20, 1, [15] = 9}, text, sizeof text), "2001::9"));
    IS(!strcmp(inet_ntop(AF_INET6, (uint8_t[16]){[15] = 0}, text, sizeof text), "::"));
    snprintf(text, sizeof text, "%05d|%-4s|%x|%llu", -42, "ab", 255u, 1ull << 40);
    IS(!strcmp(text, "-0042|ab  |ff|1099511627776"));
    IS(an_eventSchedule(0, self, 10, finish, &more));
    IS(an_domainWait(below) == AN_OK);
    /* By an_threadCreate() one, by the ends ten and a hundred, by the a-flow's function a hundred, then keys and the timer. */
    printf("came to %d\n", came);
}

static void memory(void)
{
    size_t all = 0;
    static void *volatile block;
    for (; (block = malloc(100000)); all += 100000)
        memset(block, 1, 100000);
    printf("no more behind %zu bytes\n", all);
}

int main(int argc, char **argv)
{
    static const struct { const char *word; an_EventFunc func; } ways[] = {
        {"trap", trap}, {"loop", loop}, {"stack", stack}, {"pointer", pointer}, {"function", function}, {"waits", nothing},
    };
    if (argc < 2)
        return 2;
    if (!(node = an_nodeConnect(0, &(struct an_NodeSpec){.title = "module"})))
        return fprintf(stderr, "connect: %s\n", an_strerror(an_error())), 3;
    self = an_domainSelf(node);
    if (!strcmp(argv[1], "whole"))
        return whole(), 0;
    if (!strcmp(argv[1], "memory"))
        return memory(), 0;
    for (unsigned at = 0; at < sizeof ways / sizeof *ways; at++)
        if (!strcmp(argv[1], ways[at].word)) {
            IS(an_eventSchedule(0, self, 0, ways[at].func, 0));
            an_domainWait(self);
        }
    return 4;
}
