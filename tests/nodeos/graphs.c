/* Changes a graph of its role: what is refused and why, then changes for so many times while packets pass. */
#include <anode/nodeos.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static an_Domain_t domain;
static const char *graph;
static char said[65536];

static void die(const char *what)
{
    size_t length;
    char why[2048] = "";
    int error = an_error();
    an_graphWhy(why, sizeof why, &length);
    printf("%s: %s: %s\n", what, an_strerror(error), why);
    exit(1);
}

#define MUST(...) do { if (!(__VA_ARGS__)) die(#__VA_ARGS__); } while (0)

/* A call was refused with this error, and these words. */
static void refused(int code, int error, const char *words)
{
    static char why[65536];
    size_t length = 0;
    an_graphWhy(why, sizeof why, &length);
    if (code != error || !strstr(why, words)) {
        printf("%s: %s; not %d and \"%s\"\n", an_strerror(code), why, error, words);
        exit(1);
    }
}

static unsigned generation(void)
{
    struct an_GraphFacts facts;
    MUST(an_graphShow(domain, graph, &facts, 0, 0, 0) == AN_OK);
    return facts.generation;
}

static int apply(const char *text, unsigned base)
{
    return an_graphApply(domain, graph, text, base, 0);
}

static int edit(const char *disconnect, const char *remove, const char *connect, unsigned base)
{
    return an_graphEdit(domain, graph, &(struct an_GraphEdit){disconnect, remove, connect, base}, 0);
}

/* What is refused leaves the graph as it is. */
static void refusals(char *text)
{
    struct an_GraphFacts facts;
    size_t length = 0;
    MUST(an_graphShow(domain, graph, &facts, said, sizeof said, &length) == AN_OK);
    MUST(length == strlen(said) && facts.engines > 5);
    refused(an_graphShow(domain, graph, 0, said, 4, &length), AN_EINVAL, "");
    refused(an_graphShow(domain, "nobody", &facts, 0, 0, 0), AN_ENOENT, "no graph nobody runs in the role corral");
    refused(an_graphShow(domain, "theirs", &facts, 0, 0, 0), AN_ENOENT, "no graph theirs runs in the role corral");
    refused(an_graphApply(domain, "theirs", text, 0, 0), AN_ENOENT, "no graph theirs");
    refused(apply(text, facts.generation + 1), AN_ECHANGED, "and you have looked at");
    refused(apply("FromDevice(to-a) -> Quue -> ToDevice(to-b);", 0), AN_EINVAL, "fw:1:21");
    refused(apply("FromDevice(to-a) -> Queue -> ToDevice(to-a);", 0), AN_EACCES, "leads to no device to-a");
    refused(apply("FromDevice(to-a) -> Counter @remote(10.0.2.2) -> Queue -> ToDevice(to-b);", 0), AN_EACCES, "at other nodes");
    refused(apply("FromDevice(to-b) -> Discard;", 0), AN_EINVAL, "the text has no FromDevice(to-a)");
    refused(an_graphApply(domain, graph, 0, 0, 0), AN_EINVAL, "");
    refused(edit("c -> nobody", 0, 0, 0), AN_EINVAL, "nobody");
    refused(edit(0, "c", 0, 0), AN_EINVAL, "not connected");
    refused(edit(0, 0, "c -> [3] c", facts.generation - 1), facts.generation == 1 ? AN_EINVAL : AN_ECHANGED, "");
    static char many[20000];
    strcpy(many, "FromDevice(to-a)");
    for (int n = 0; n < 40; n++)
        strcat(many, " -> Null");
    strcat(many, " -> Discard;");
    refused(apply(many, 0), AN_ELIMIT, "42 engines are more than the role corral has, 32");
    memset(many, ' ', 9000);
    many[9000] = 0;
    refused(apply(many, 0), AN_ELIMIT, "9000 bytes of text are more than the role corral has, 8192");
    static char huge[70000];
    memset(huge, ' ', sizeof huge - 1);
    refused(apply(huge, 0), AN_ELIMIT, "more than a call has");
    refused(an_graphRead(domain, graph, "c.nothing", said, sizeof said, &length), AN_EINVAL, "no such handler nothing");
    refused(an_graphWrite(domain, graph, "c.count", "1"), AN_EINVAL, "c has no such handler count");
    an_Domain_t other = an_domainCreate(0, domain, 0, &(struct an_DomainSpec){.cred = an_credCreate(0, "twin")});
    MUST(other);
    refused(an_graphShow(other, "twins", &facts, 0, 0, 0), AN_EACCES, "a domain above it has another role");
    an_Domain_t below = an_domainCreate(0, domain, 0, 0);
    MUST(below && an_graphShow(below, graph, &facts, 0, 0, 0) == AN_OK);
    refused(an_graphShow(domain, graph, &facts, 0, 0, 0), AN_OK, "");
}

/* Changes it, as soon as it may. */
static void must_edit(const char *disconnect, const char *remove, const char *connect, unsigned base)
{
    int code;
    while ((code = edit(disconnect, remove, connect, base)) == AN_EAGAIN)
        an_threadYield();
    MUST(code == AN_OK);
}

/* Another role has a rate of its own; what is refused counts. */
static void too_often(void)
{
    an_Node_t slow = an_nodeConnect(0, &(struct an_NodeSpec){.title = "slow", .cred = an_credCreate(0, "slow")});
    MUST(slow);
    int code = 0;
    for (int tries = 0; tries < 1000 && code != AN_EAGAIN; tries++) {
        code = an_graphWrite(an_domainSelf(slow), "slow", "nobody.reset", 0);
        if (!tries)
            refused(code, AN_EINVAL, "graph slow has no engine nobody");
    }
    refused(code, AN_EAGAIN, "programs of the role slow change graphs 1 times a second");
    MUST(an_nodeDisconnect(slow) == AN_OK);
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    an_Node_t node = an_nodeConnect(0, &(struct an_NodeSpec){.title = "plumber", .cred = an_credCreate(0, argv[1])});
    MUST(node);
    domain = an_domainSelf(node), graph = argv[2];
    unsigned before = generation(), now = 0, edits = atoi(argv[4]);
    refusals(argv[3]);
    too_often();
    MUST(generation() == before);
    MUST(an_graphApply(domain, graph, argv[3], before, &now) == AN_OK && now == before + 1);
    MUST(an_graphWrite(domain, graph, "c.reset", 0) == AN_OK);
    puts("ready");
    fflush(stdout);
    for (unsigned n = 0; n < edits; n++) {
        must_edit("x -> last", 0, "x -> more :: Counter -> n :: Null -> last", now++);
        must_edit("x -> more -> n -> last", "more n", "x -> last", now++);
    }
    size_t length;
    MUST(an_graphRead(domain, graph, "mixed.count", said, sizeof said, &length) == AN_OK);
    printf("%u %s\n", generation(), said);
    return an_nodeDisconnect(node);
}
