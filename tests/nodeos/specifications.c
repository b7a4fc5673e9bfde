/* Specifications live for one call: each is freed or overwritten as soon as the call returns, and the created object
 * works all the same. Built with AddressSanitizer, which sees any use after that. Also: memory of objects in the
 * explicit model is not touched by destroying them. Packets travel from port if0 to port if1 of the same node. Prints
 * "ok" at the end. */
#include "await.h"
#include <anode/nodeos.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static atomic_int arrived;
static an_Node_t node;

static void *copy(const void *from, size_t bytes)
{
    void *to = malloc(bytes);
    memcpy(to, from, bytes);
    return to;
}

/* Nobody may look at it again; if somebody does, he sees nonsense or is reported. */
static void spoil(void *it, size_t bytes)
{
    memset(it, 0xff, bytes);
    free(it);
}

#define SPEC(type, ...) copy(&(struct type){__VA_ARGS__}, sizeof(struct type))

static void die(const char *what)
{
    printf("%s: %s\n", what, an_strerror(an_error()));
    exit(1);
}

static void deliver(an_InChan_t in, an_PacketBuffer_t packet, const struct an_Ends *ends, void *arg)
{
    size_t length;
    (void)in, (void)ends;
    if (arg != &arrived || an_pktbufLength(packet, &length) || length != 5 || memcmp(an_pktbufData(packet), "hello", 5))
        die("a packet");
    if (an_pktbufFree(packet))
        die("free");
    count_up(&arrived);
}

static void round_trip(an_Domain_t domain, void *memory)
{
    char *protocol = strdup("if1/anep"), *address = strdup("type 300");
    struct an_KeyTuple *tuple = SPEC(an_KeyTuple, .offset = 0, .length = 1, .value = 'h', .mask = 0xff);
    struct an_DemuxKey *key = SPEC(an_DemuxKey, 1, tuple);
    struct an_NetSpec *net = SPEC(an_NetSpec, .maxthreads = 1, .npbufs = 16);
    an_InChan_t in = an_inchanCreate(memory, domain, key, protocol, address, net, deliver, &arrived);
    if (!in)
        die("in-channel");
    spoil(tuple, sizeof *tuple);
    spoil(key, sizeof *key);
    spoil(protocol, strlen("if1/anep") + 1);
    spoil(address, strlen("type 300") + 1);
    protocol = strdup("if0/anep"), address = strdup("type 300");
    an_OutChan_t out = an_outchanCreate(0, domain, protocol, address, net);
    if (!out)
        die("out-channel");
    spoil(net, sizeof *net);
    spoil(protocol, strlen("if0/anep") + 1);
    spoil(address, strlen("type 300") + 1);
    int before = atomic_load(&arrived);
    an_PacketBuffer_t packet = an_pktbufAlloc(domain);
    if (!packet || an_pktbufResize(packet, 5))
        die("packet");
    memcpy(an_pktbufData(packet), "hello", 5);
    struct an_End *to = SPEC(an_End, .address = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 2});
    if (an_outchanSend(out, to, packet))
        die("send");
    spoil(to, sizeof *to);
    await_count(&arrived, before + 1);
    if (an_inchanDestroy(in) || an_outchanDestroy(out))
        die("destroy");
}

int main(void)
{
    char *role = strdup("ee"), *title = strdup("specifications"), *path = strdup(getenv("ANODE_NODEOS"));
    size_t path_length = strlen(path) + 1;
    an_Cred_t cred = an_credCreate(0, role);
    spoil(role, 3);
    struct an_ThreadPoolSpec *threads = SPEC(an_ThreadPoolSpec, .maxthreads = 2);
    struct an_NodeSpec *spec = SPEC(an_NodeSpec, path, title, cred, threads, 0);
    node = an_nodeConnect(0, spec);
    if (!node)
        die("connect");
    spoil(spec, sizeof *spec);
    spoil(title, strlen("specifications") + 1);
    spoil(path, path_length);
    if (an_credDestroy(cred))
        die("credential");
    for (int round = 0; round < 20; round++) {
        title = strdup("below");
        struct an_DomainSpec *below = SPEC(an_DomainSpec, .title = title);
        /* Exactly as much memory as an object needs: what is written beside it is reported. */
        void *memory = aligned_alloc(16, an_objectSize()), *channel = aligned_alloc(16, an_objectSize());
        memset(memory, round, an_objectSize());
        an_Domain_t domain = an_domainCreate(memory, an_domainSelf(node), threads, below);
        if (!domain || (void *)domain != memory)
            die("domain");
        spoil(below, sizeof *below);
        spoil(title, strlen("below") + 1);
        struct an_MemPoolSpec *limits = SPEC(an_MemPoolSpec, .limit = 1 << 16, .deadline_ms = 100);
        an_MemPool_t pool = an_mempoolCreate(0, domain, limits);
        if (!pool)
            die("pool");
        spoil(limits, sizeof *limits);
        round_trip(domain, channel);
        if (an_mempoolDestroy(pool) || an_domainDestroy(domain))
            die("the end of a domain");
        free(channel);
        free(memory);
    }
    spoil(threads, sizeof *threads);
    if (an_nodeDisconnect(node))
        die("disconnect");
    puts("ok");
    return 0;
}
