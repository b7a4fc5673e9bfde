/* A process without memory left, or without room for a thread's stack: every call gives AN_ENOMEM or works, none ends
 * the process. With memory all works as before. Prints "ok" at the end. */
#include <anode/nodeos.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static an_Node_t node;
static void *hoard;

static void die(const char *what)
{
    printf("%s: %s\n", what, an_strerror(an_error()));
    exit(1);
}

#define MUST(...) do { if (!(__VA_ARGS__)) die(#__VA_ARGS__); } while (0)

static void nothing(void *arg)
{
    (void)arg;
}

static void on_event(an_Event_t event, void *arg)
{
    (void)event, (void)arg;
}

/* Bytes of address space that the process has. */
static rlim_t mapped(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%lu", &pages) != 1)
        die("statm");
    fclose(file);
    return pages * 4096;
}

static void limit(rlim_t bytes)
{
    struct rlimit all = {bytes, RLIM_INFINITY};
    MUST(setrlimit(RLIMIT_AS, &all) == 0);
}

/* Takes all that malloc still has, in ever smaller pieces that are linked to each other. */
static void eat(void)
{
    for (size_t size = 1 << 20; size >= 64; size /= 2)
        for (void **piece; (piece = malloc(size)); hoard = piece)
            *piece = hoard;
}

static void give_back(void)
{
    while (hoard) {
        void *next = *(void **)hoard;
        free(hoard);
        hoard = next;
    }
}

/* Says AN_ENOMEM, and how often. */
static int refused(int worked)
{
    if (worked)
        return 0;
    MUST(an_error() == AN_ENOMEM);
    return 1;
}

/* Whether all of a pool is free. */
static int is_free(an_MemPool_t pool, int64_t all)
{
    return an_mempoolCharge(pool, all) == AN_OK && an_mempoolCharge(pool, -all) == AN_OK;
}

/* A block that the process has no memory for is charged to nobody, and a heap whose table has no room for another entry does not end it. */
static void heaps(void)
{
    enum { ALL = 12 << 20 };
    an_MemPool_t pool = an_mempoolCreate(0, an_domainSelf(node), &(struct an_MemPoolSpec){.limit = ALL});
    an_Heap_t heap = pool ? an_heapCreate(0, pool, 0) : 0;
    MUST(heap);
    limit(mapped() + (8 << 20));
    MUST(!an_heapAlloc(heap, ALL) && an_error() == AN_ENOMEM);
    MUST(is_free(pool, ALL));
    unsigned blocks = 0;
    while (an_heapAlloc(heap, 1))
        blocks++;
    MUST(an_error() == AN_ENOMEM && blocks > 1000);
    limit(RLIM_INFINITY);
    MUST(an_heapAlloc(heap, 1) && an_heapDestroy(heap) == AN_OK);
    MUST(is_free(pool, ALL) && an_mempoolDestroy(pool) == AN_OK);
}

int main(void)
{
    node = an_nodeConnect(0, &(struct an_NodeSpec){.cred = an_credCreate(0, "ee")});
    MUST(node);
    heaps();
    an_Domain_t domain = an_domainSelf(node);
    limit(mapped() + (8 << 20));
    /* A stack that does not fit: there is neither a thread nor a domain then. */
    for (int turn = 0; turn < 100; turn++) {
        struct an_ThreadPoolSpec large = {.maxthreads = 1, .stackbytes = 64 << 20};
        MUST(!an_domainCreate(0, domain, &large, 0) && an_error() == AN_ENOMEM);
    }
    eat();
    int refusals = 0;
    for (int turn = 0; turn < 1000; turn++) {
        refusals += refused(an_domainCreate(0, domain, 0, 0) != 0);
        refusals += refused(an_eventSchedule(0, domain, 1000000, on_event, 0) != 0);
        refusals += refused(an_outchanCreate(0, domain, "if0/anep", "type 212", 0) != 0);
        refusals += refused(an_threadCreate(domain, nothing, 0) == AN_OK || an_error() == AN_EAGAIN);
    }
    MUST(refusals >= 3000);
    give_back();
    limit(RLIM_INFINITY);
    for (int turn = 0; turn < 20; turn++) {
        an_Domain_t below = an_domainCreate(0, domain, 0, 0);
        MUST(below && an_threadCreate(below, nothing, 0) == AN_OK && an_domainDestroy(below) == AN_OK);
    }
    puts("ok");
    fflush(stdout);
    return an_nodeDisconnect(node);
}
