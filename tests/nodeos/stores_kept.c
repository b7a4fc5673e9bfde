/* A store that outlives its node. "write" puts numbers until the node is gone, and says each that was acknowledged; "read N"
 * looks whether all up to N are there, and says how many are. */
#include <anode/nodeos.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void die(int line, const char *what)
{
    printf("line %d: %s: %s\n", line, what, an_strerror(an_error()));
    exit(1);
}

#define MUST(...) do { if (!(__VA_ARGS__)) die(__LINE__, #__VA_ARGS__); } while (0)

static int count(const void *key, size_t keybytes, size_t bytes, uint64_t version, void *arg)
{
    (void)key, (void)bytes;
    MUST(keybytes == sizeof(uint32_t) && version > 0);
    ++*(uint32_t *)arg;
    return 0;
}

/* Every third number is put twice, so that the journal is longer than what it comes to. */
static void put(an_Store_t store, uint32_t number)
{
    char value[700];
    memset(value, (char)number, sizeof value);
    int done = AN_OK;
    for (int times = number % 3 ? 1 : 2; times > 0 && done == AN_OK; times--)
        done = an_storePut(store, &number, sizeof number, value, sizeof value, 0, 0);
    if (done == AN_ESHUTDOWN)
        exit(0);
    MUST(done == AN_OK);
    printf("%u\n", number);
    fflush(stdout);
}

int main(int count_of_words, char **words)
{
    an_Cred_t cred = an_credCreate(0, "ee");
    struct an_NodeSpec spec = {.title = "keeper", .cred = cred};
    struct an_StoreSpec kept = {.bytes = 8 << 20, .flags = AN_STORE_PERSISTENT};
    an_Node_t node = an_nodeConnect(0, &spec);
    MUST(node && count_of_words > 1);
    an_Domain_t domain = an_domainSelf(node);
    an_Store_t store = an_storeOpen(0, domain, 0, "numbers", &kept);
    if (!store) {
        printf("%s\n", an_strerror(an_error()));
        return 2;
    }
    if (!strcmp(words[1], "write")) {
        an_Store_t said = an_storeOpen(0, domain, 0, "said", &(struct an_StoreSpec){.bytes = 4096});
        MUST(said && an_storePut(said, "kept", 4, "", 0, 0, 0) == AN_OK && an_storeRegister(said, "writer", 6, "here", 4, 0, 0) == AN_OK);
        uint32_t from = count_of_words > 2 ? (uint32_t)atoi(words[2]) : 1;
        for (uint32_t number = from;; number++)
            put(store, number);
    }
    MUST(count_of_words > 2);
    uint32_t most = (uint32_t)atoi(words[2]), found = 0;
    for (uint32_t number = 1; number <= most; number++) {
        char value[700];
        size_t bytes;
        MUST(an_storeGet(store, 0, &number, sizeof number, value, sizeof value, &bytes, 0) == AN_OK);
        MUST(bytes == sizeof value && value[0] == (char)number && value[699] == (char)number);
    }
    MUST(an_storeList(store, 0, 0, 0, count, &found) == AN_OK);
    printf("%u\n", found);
    return 0;
}
