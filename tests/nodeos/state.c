/* Soft state of domains, used by a program in C: two threads and a domain below change the same values. Prints "ok" at
 * the end. */
#include <anode/nodeos.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 1000, KEEP = 60000 };

static an_Node_t node;
static an_Domain_t domain, below;

static void die(int line, const char *what)
{
    printf("line %d: %s: %s\n", line, what, an_strerror(an_error()));
    exit(1);
}

#define MUST(...) do { if (!(__VA_ARGS__)) die(__LINE__, #__VA_ARGS__); } while (0)

/* Counts in two words of a value at once, and raises another. */
static void *hammer(void *arg)
{
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        MUST(an_stateAdd(domain, 1, 1, KEEP, 0) == AN_OK);
        MUST(an_stateMax(domain, 2, round, KEEP, 0) == AN_OK);
        for (;;) {
            struct an_StateValue value;
            int got = an_stateGet(domain, 3, &value);
            MUST(got == AN_OK || got == AN_ENOENT);
            uint64_t seen = value.word[0]++;
            value.word[7] += 3;
            int done = an_stateExchange(domain, 3, seen, &value, KEEP);
            if (done == AN_OK)
                break;
            MUST(done == AN_ECHANGED && an_error() == AN_ECHANGED);
        }
    }
    return arg;
}

static void together(void)
{
    pthread_t threads[2];
    for (int at = 0; at < 2; at++)
        MUST(!pthread_create(&threads[at], 0, hammer, 0));
    for (int at = 0; at < 2; at++)
        MUST(!pthread_join(threads[at], 0));
    struct an_StateValue value;
    MUST(an_stateGet(domain, 1, &value) == AN_OK && value.word[0] == 2 * ROUNDS);
    MUST(an_stateGet(domain, 2, &value) == AN_OK && value.word[0] == ROUNDS);
    MUST(an_stateGet(domain, 3, &value) == AN_OK && value.word[0] == 2 * ROUNDS && value.word[7] == 6 * ROUNDS);
}

static void rules(void)
{
    struct an_StateValue value = {{1, 2, 3, 4, 5, 6, 7, 8}}, read;
    uint64_t number = 0;

    MUST(an_stateGet(domain, 10, &read) == AN_ENOENT && !read.word[0] && !read.word[7]);
    MUST(an_statePut(domain, 10, &value, KEEP) == AN_OK);
    MUST(an_stateGet(domain, 10, &read) == AN_OK && read.word[0] == 1 && read.word[7] == 8);
    MUST(an_stateAdd(domain, 10, 5, KEEP, &number) == AN_OK && number == 6);
    MUST(an_stateMax(domain, 10, 4, KEEP, &number) == AN_OK && number == 6);
    MUST(an_stateMax(domain, 10, UINT64_MAX, KEEP, &number) == AN_OK && number == UINT64_MAX);
    MUST(an_stateExchange(domain, 10, 6, &value, KEEP) == AN_ECHANGED);
    MUST(an_stateExchange(domain, 10, UINT64_MAX, &value, KEEP) == AN_OK);
    MUST(an_stateGet(domain, 10, &read) == AN_OK && read.word[0] == 1);
    /* Each domain has its own, and whoever is above reaches it. */
    MUST(an_stateGet(below, 10, &read) == AN_ENOENT);
    MUST(an_stateAdd(below, 10, 7, KEEP, &number) == AN_OK && number == 7);
    MUST(an_stateAdd(domain, 10, 0, KEEP, &number) == AN_OK && number == 1);
    MUST(an_statePut(domain, 10, &value, 0) == AN_OK && an_stateGet(domain, 10, &read) == AN_ENOENT);
    /* As many entries as the role's limits give. */
    int kept = 0, done;
    for (uint64_t key = 100; !(done = an_stateAdd(below, key, 1, KEEP, 0)) && kept < 100000; key++)
        kept++;
    MUST(done == AN_ELIMIT && kept > 0);
}

static void wrong(void)
{
    struct an_StateValue value = {{0}};
    uint64_t words[2], *crooked = (uint64_t *)((char *)words + 1);

    MUST(an_stateGet(domain, 1, 0) == AN_EINVAL && an_statePut(domain, 1, 0, KEEP) == AN_EINVAL);
    MUST(an_stateExchange(domain, 1, 0, 0, KEEP) == AN_EINVAL);
    MUST(an_stateAdd(domain, 1, 1, KEEP, crooked) == AN_EINVAL && an_stateMax(domain, 1, 1, KEEP, crooked) == AN_EINVAL);
    MUST(an_stateGet((an_Domain_t)node, 1, &value) == AN_EINVAL && an_statePut(0, 1, &value, KEEP) == AN_EINVAL);
    MUST(an_domainTerminate(below) == AN_OK);
    MUST(an_stateGet(below, 10, &value) == AN_ESTALE && an_stateAdd(below, 10, 1, KEEP, 0) == AN_ESTALE);
    MUST(an_domainDestroy(below) == AN_OK);
}

int main(void)
{
    struct an_NodeSpec spec = {.cred = an_credCreate(0, "ee")};
    MUST(node = an_nodeConnect(0, &spec));
    domain = an_domainSelf(node);
    MUST(below = an_domainCreate(0, domain, 0, 0));
    together();
    rules();
    wrong();
    MUST(an_nodeDisconnect(node) == AN_OK);
    puts("ok");
    return 0;
}
