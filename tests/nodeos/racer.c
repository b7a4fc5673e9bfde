/* Connects one more engine of a graph for each line that it reads, whoever has changed the graph before: what came of it, and which
   generation that is. */
#include <anode/nodeos.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    an_Node_t node = an_nodeConnect(0, &(struct an_NodeSpec){.title = "racer", .cred = an_credCreate(0, argv[1])});
    if (!node)
        return 1;
    char line[64], connect[128];
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        int round = 0;
        uint32_t now = 0;
        sscanf(line, "%d", &round);
        snprintf(connect, sizeof connect, "TimedSource(1) -> racer%d :: Null -> Discard", round);
        int code = an_graphEdit(an_domainSelf(node), argv[2], &(struct an_GraphEdit){.connect = connect}, &now);
        printf("%s %u\n", code == AN_OK ? "done" : code == AN_ECHANGED ? "changed" : an_strerror(code), now);
        fflush(stdout);
    }
    return an_nodeDisconnect(node);
}
