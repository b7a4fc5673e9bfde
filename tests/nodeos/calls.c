/* A program that does nothing but call its node, as fast as that answers. Each call is answered, and its domain pays
 * for it. Prints "ok" at the end. */
#include <anode/nodeos.h>
#include <stdio.h>
#include <stdlib.h>

enum { CALLS = 20000, KEEP = 60000 };

static void die(int line, const char *what)
{
    printf("line %d: %s: %s\n", line, what, an_strerror(an_error()));
    exit(1);
}

#define MUST(...) do { if (!(__VA_ARGS__)) die(__LINE__, #__VA_ARGS__); } while (0)

int main(void)
{
    struct an_NodeSpec spec = {.cred = an_credCreate(0, "ee")};
    an_Node_t node;
    uint64_t number = 0;

    MUST(node = an_nodeConnect(0, &spec));
    an_Domain_t domain = an_domainSelf(node);
    for (uint64_t call = 1; call <= CALLS; call++)
        MUST(an_stateAdd(domain, 1, 1, KEEP, &number) == AN_OK && number == call);
    MUST(an_nodeDisconnect(node) == AN_OK);
    puts("ok");
    return 0;
}
