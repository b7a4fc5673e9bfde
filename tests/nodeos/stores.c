/* Named stores, used by a program in C with two connections: "alpha" shares a store with "beta". Threads change the same key,
 * a snapshot stays as it was, a registry tells who watches it. With the word "persistent" a store outlives its domain. Prints
 * "ok" at the end. */
#include <anode/nodeos.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "await.h"

enum { ROUNDS = 200, KEYS = 600, LARGEST = 65536 };

static an_Node_t alpha, beta;
static an_Domain_t own, other;
static an_Store_t store;

static void die(int line, const char *what)
{
    printf("line %d: %s: %s\n", line, what, an_strerror(an_error()));
    exit(1);
}

#define MUST(...) do { if (!(__VA_ARGS__)) die(__LINE__, #__VA_ARGS__); } while (0)

static an_Node_t connect_as(const char *title)
{
    an_Cred_t cred = an_credCreate(0, "ee");
    struct an_NodeSpec spec = {.title = title, .cred = cred};
    an_Node_t node = an_nodeConnect(0, &spec);
    MUST(node && an_credDestroy(cred) == AN_OK);
    return node;
}

/* Counts in a value, whoever else does. */
static void *hammer(void *arg)
{
    an_Store_t at = arg;
    for (int round = 0; round < ROUNDS; round++) {
        for (;;) {
            uint64_t number = 0, version = 0;
            size_t bytes;
            int got = an_storeGet(at, 0, "count", 5, &number, sizeof number, &bytes, &version);
            MUST(got == AN_OK || got == AN_ENOENT);
            number++;
            int done = an_storePut(at, "count", 5, &number, sizeof number, &version, 0);
            if (done == AN_OK)
                break;
            MUST(done == AN_ECHANGED);
        }
    }
    return arg;
}

static int count(const void *key, size_t keybytes, size_t bytes, uint64_t version, void *arg)
{
    char expected[16];
    int *counted = arg;
    size_t length = (size_t)snprintf(expected, sizeof expected, "key%04d", *counted);
    MUST(keybytes == length && !memcmp(key, expected, length) && bytes == 1 && version > 0);
    ++*counted;
    return 0;
}

static int stop(const void *key, size_t keybytes, size_t bytes, uint64_t version, void *arg)
{
    (void)key, (void)keybytes, (void)bytes, (void)version;
    return ++*(int *)arg == 3;
}

static void rules(void)
{
    static char large[LARGEST], read[LARGEST];
    struct an_StoreSpec exclusive = {.flags = AN_STORE_EXCLUSIVE}, wrong = {.flags = 64};
    struct an_StoreFacts facts;
    uint64_t version = 0, none = 0, first;
    size_t bytes = 0;
    char value[8];

    MUST(!an_storeOpen(0, own, 0, "things", &exclusive) && an_error() == AN_EEXIST);
    MUST(!an_storeOpen(0, own, 0, "others", 0) && an_error() == AN_ENOENT);
    MUST(!an_storeOpen(0, own, 0, "things", &wrong) && an_error() == AN_EINVAL);
    MUST(!an_storeOpen(0, own, 0, "a/b", 0) && an_error() == AN_EINVAL);
    MUST(!an_storeOpen(0, own, 0, 0, 0) && an_error() == AN_EINVAL);
    MUST(an_storePut(store, "k\0k", 3, "one", 3, &none, &first) == AN_OK && first > 0);
    MUST(an_storePut(store, "k\0k", 3, "two", 3, &none, 0) == AN_ECHANGED);
    MUST(an_storeGet(store, 0, "k\0k", 3, value, sizeof value, &bytes, &version) == AN_OK);
    MUST(bytes == 3 && !memcmp(value, "one", 3) && version == first);
    MUST(an_storeGet(store, 0, "k", 1, value, sizeof value, &bytes, 0) == AN_ENOENT);
    MUST(an_storeGet(store, 0, "k\0k", 3, value, 2, &bytes, 0) == AN_EINVAL && bytes == 3);
    MUST(an_storePut(store, "", 0, "v", 1, 0, 0) == AN_EINVAL);
    MUST(an_storePut(store, large, 1025, "v", 1, 0, 0) == AN_EINVAL);
    MUST(an_storePut(store, "k", 1, large, LARGEST + 1, 0, 0) == AN_EINVAL);
    memset(large, 7, sizeof large);
    MUST(an_storePut(store, "large", 5, large, LARGEST, 0, 0) == AN_OK);
    MUST(an_storeGet(store, 0, "large", 5, read, LARGEST, &bytes, 0) == AN_OK && bytes == LARGEST && !memcmp(large, read, LARGEST));
    MUST(an_storeDelete(store, "large", 5, 0, 0) == AN_OK && an_storeDelete(store, "large", 5, 0, 0) == AN_ENOENT);
    MUST(an_storeDelete(store, "k\0k", 3, &none, 0) == AN_ECHANGED && an_storeDelete(store, "k\0k", 3, &first, 0) == AN_OK);
    MUST(an_storePut(store, "empty", 5, 0, 0, 0, 0) == AN_OK);
    MUST(an_storeGet(store, 0, "empty", 5, 0, 0, &bytes, 0) == AN_OK && bytes == 0);
    MUST(an_storeDelete(store, "empty", 5, 0, 0) == AN_OK);
    MUST(an_storeFacts(store, &facts) == AN_OK && facts.keys == 0 && facts.bytes == 0 && facts.limit == 1 << 20);
    MUST(an_storeSync(store) == AN_ENOSYS);
    MUST(an_storeClose((void *)own) == AN_EINVAL && an_watchRead((void *)store, 0, 0, 0) == AN_EINVAL);
}

static void lists_and_snapshots(void)
{
    char key[16], value;
    size_t bytes;
    int counted = 0;
    for (int at = 0; at < KEYS; at++) {
        int length = snprintf(key, sizeof key, "key%04d", at);
        MUST(an_storePut(store, key, (size_t)length, "a", 1, 0, 0) == AN_OK);
    }
    an_Snapshot_t snapshot = an_snapshotCreate(0, store);
    MUST(snapshot);
    for (int at = 0; at < KEYS; at += 2) {
        int length = snprintf(key, sizeof key, "key%04d", at);
        MUST(an_storeDelete(store, key, (size_t)length, 0, 0) == AN_OK);
    }
    MUST(an_storePut(store, "key9999", 7, "b", 1, 0, 0) == AN_OK);
    MUST(an_storeList(store, snapshot, "key", 3, count, &counted) == AN_OK && counted == KEYS);
    counted = 0;
    MUST(an_storeList(store, 0, 0, 0, stop, &counted) == AN_OK && counted == 3);
    MUST(an_storeGet(store, snapshot, "key0000", 7, &value, 1, &bytes, 0) == AN_OK && value == 'a');
    MUST(an_storeGet(store, 0, "key0000", 7, &value, 1, &bytes, 0) == AN_ENOENT);
    MUST(an_snapshotDestroy(snapshot) == AN_OK && an_snapshotDestroy(snapshot) == AN_ESTALE);
}

static void together(void)
{
    pthread_t threads[2];
    an_Store_t theirs = an_storeOpen(0, other, "alpha", "things", 0);
    uint64_t number;
    size_t bytes;
    MUST(!theirs && an_error() == AN_EACCES);
    MUST(an_storeShare(store, "beta", AN_ACCESS_READ) == AN_OK);
    MUST((theirs = an_storeOpen(0, other, "alpha", "things", 0)));
    MUST(an_storePut(theirs, "count", 5, "", 0, 0, 0) == AN_EACCES);
    MUST(an_storeShare(store, "beta", AN_ACCESS_WRITE) == AN_OK && an_storeShare(theirs, "gamma", AN_ACCESS_READ) == AN_EACCES);
    MUST(!pthread_create(&threads[0], 0, hammer, store) && !pthread_create(&threads[1], 0, hammer, theirs));
    for (int at = 0; at < 2; at++)
        MUST(!pthread_join(threads[at], 0));
    MUST(an_storeGet(store, 0, "count", 5, &number, sizeof number, &bytes, 0) == AN_OK && number == 2 * ROUNDS);
    MUST(an_storeRemove(theirs) == AN_EACCES && an_storeClose(theirs) == AN_OK && an_storeClose(theirs) == AN_ESTALE);
}

static atomic_int told, changed, ended;

static void note(const void *key, size_t keybytes, uint64_t version, int deleted, void *arg)
{
    (void)key, (void)version, (void)deleted, (void)arg;
    MUST(keybytes == 3);
    count_up(&changed);
}

static void on_change(an_Watch_t watch, void *arg)
{
    uint64_t lost;
    MUST(arg == &told);
    int done = an_watchRead(watch, note, 0, &lost);
    MUST(done == AN_OK ? lost == 0 : done == AN_ESTALE);
    if (done != AN_OK)
        count_up(&ended);
    count_up(&told);
}

/* A registry: services say where they are, and who needs them is told. */
static void registry(void)
{
    struct an_StoreSpec spec = {.bytes = 4096};
    an_Store_t names = an_storeOpen(0, own, 0, "services", &spec);
    MUST(names && an_storeShare(names, "*", AN_ACCESS_WRITE) == AN_OK);
    an_Store_t theirs = an_storeOpen(0, other, "alpha", "services", 0);
    MUST(theirs);
    an_Watch_t watch = an_watchCreate(0, theirs, "dns", 3, on_change, &told);
    MUST(watch);
    MUST(an_storePut(names, "ntp", 3, "10.0.0.8", 8, 0, 0) == AN_OK);
    MUST(an_storePut(names, "dns", 3, "10.0.0.7", 8, 0, 0) == AN_OK);
    await_count(&changed, 1);
    MUST(an_storePut(names, "dns", 3, "10.0.0.9", 8, 0, 0) == AN_OK);
    await_count(&changed, 2);
    MUST(an_storeRemove(names) == AN_OK && an_storeGet(theirs, 0, "dns", 3, 0, 0, &(size_t){0}, 0) == AN_ESTALE);
    await_count(&ended, 1);
    MUST(an_watchDestroy(watch) == AN_OK && an_watchDestroy(watch) == AN_ESTALE && an_storeClose(theirs) == AN_OK);
}

/* What is registered ends with who has done it: a domain, an a-flow, a process. */
static void registered(void)
{
    struct an_StoreSpec spec = {.bytes = 4096}, kept = {.bytes = 4096, .flags = AN_STORE_PERSISTENT};
    an_Node_t gamma = connect_as("gamma");
    an_Domain_t ends[] = {an_domainCreate(0, other, 0, 0), an_flowCreate(0, other, 0), an_domainSelf(gamma)};
    an_Store_t names = an_storeOpen(0, own, 0, "services", &spec), of[3];
    uint64_t none = 0, version = 0;
    size_t bytes;
    int seen = atomic_load(&changed);
    MUST(names && an_storeShare(names, "beta", AN_ACCESS_WRITE) == AN_OK && an_storeShare(names, "gamma", AN_ACCESS_READ) == AN_OK);
    an_Watch_t watch = an_watchCreate(0, names, "s", 1, on_change, &told);
    MUST(watch);
    for (int at = 0; at < 3; at++) {
        char key[] = {'s', '-', (char)('0' + at)};
        MUST(ends[at] && (of[at] = an_storeOpen(0, ends[at], "alpha", "services", 0)));
        if (at == 2) {
            MUST(an_storeRegister(of[at], key, 3, "here", 4, &none, 0) == AN_EACCES);
            MUST(an_storeShare(names, "gamma", AN_ACCESS_WRITE) == AN_OK);
        }
        MUST(an_storeRegister(of[at], key, 3, "here", 4, &none, &version) == AN_OK && version > 0);
        MUST(an_storeRegister(of[at], key, 3, "here", 4, &none, 0) == AN_ECHANGED);
        await_count(&changed, ++seen);
    }
    MUST(an_storePut(of[0], "plain", 5, "", 0, 0, 0) == AN_OK);
    MUST(an_domainDestroy(ends[0]) == AN_OK && an_storeGet(names, 0, "s-0", 3, 0, 0, &bytes, 0) == AN_ENOENT);
    await_count(&changed, ++seen);
    MUST(an_storeGet(names, 0, "plain", 5, 0, 0, &bytes, 0) == AN_OK);
    MUST(an_domainDestroy(ends[1]) == AN_OK && an_storeGet(names, 0, "s-1", 3, 0, 0, &bytes, 0) == AN_ENOENT);
    await_count(&changed, ++seen);
    MUST(an_nodeDisconnect(gamma) == AN_OK);
    await_count(&changed, ++seen);
    MUST(an_storeGet(names, 0, "s-2", 3, 0, 0, &bytes, 0) == AN_ENOENT);
    MUST(an_watchDestroy(watch) == AN_OK && an_storeRemove(names) == AN_OK);
    if ((names = an_storeOpen(0, own, 0, "forever", &kept)))
        MUST(an_storeRegister(names, "k", 1, "v", 1, 0, 0) == AN_ENOSYS && an_storeRemove(names) == AN_OK);
}

/* With its domain ends a store, and what it holds of its domain's memory. */
static void endings(void)
{
    struct an_DomainSpec spec = {.title = "below"};
    struct an_StoreSpec large = {.bytes = 32 << 20}, small = {.bytes = 1 << 20};
    struct an_Usage before, after;
    an_Domain_t below = an_domainCreate(0, own, 0, &spec);
    MUST(below && an_domainUsage(below, &before) == AN_OK);
    an_Store_t mine = an_storeOpen(0, below, 0, "below", &small), seen;
    MUST(mine && an_domainUsage(below, &after) == AN_OK && after.memory_bytes == before.memory_bytes + (1 << 20));
    MUST(an_storeOpen(0, below, 0, "large", &large) && !an_storeOpen(0, below, 0, "larger", &large) && an_error() == AN_ELIMIT);
    MUST((seen = an_storeOpen(0, own, 0, "below", 0)) && an_storePut(seen, "k", 1, "v", 1, 0, 0) == AN_OK);
    MUST(an_domainDestroy(below) == AN_OK);
    MUST(an_storePut(seen, "k", 1, "v", 1, 0, 0) == AN_ESTALE && !an_storeOpen(0, own, 0, "below", 0));
    MUST(an_error() == AN_ENOENT && an_storeClose(seen) == AN_OK);
}

int main(void)
{
    struct an_StoreSpec spec = {.bytes = 1 << 20};
    alpha = connect_as("alpha");
    beta = connect_as("beta");
    own = an_domainSelf(alpha);
    other = an_domainSelf(beta);
    MUST((store = an_storeOpen(0, own, 0, "things", &spec)));
    rules();
    lists_and_snapshots();
    together();
    registry();
    registered();
    endings();
    MUST(an_storeRemove(store) == AN_OK && an_storeRemove(store) == AN_ESTALE);
    MUST(an_nodeDisconnect(alpha) == AN_OK && an_nodeDisconnect(beta) == AN_OK);
    puts("ok");
    return 0;
}
