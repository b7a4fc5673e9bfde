/* A program that reads a file, again and again, and then waits for the end of its input. Prints "ready" before that, and
 * "ok" at the end. */
#include <anode/nodeos.h>
#include <stdio.h>
#include <stdlib.h>

enum { READS = 20000 };

static void die(int line, const char *what)
{
    printf("line %d: %s: %s\n", line, what, an_strerror(an_error()));
    exit(1);
}

#define MUST(...) do { if (!(__VA_ARGS__)) die(__LINE__, #__VA_ARGS__); } while (0)

int main(void)
{
    static char room[4096];
    struct an_NodeSpec spec = {.cred = an_credCreate(0, "ee")};
    an_Node_t node;
    an_File_t file;
    size_t done;

    MUST(node = an_nodeConnect(0, &spec));
    an_Domain_t domain = an_domainSelf(node);
    MUST(file = an_fileOpen(0, domain, 0, "read", AN_FILE_READ | AN_FILE_WRITE | AN_FILE_CREATE));
    MUST(an_fileWrite(file, 0, room, sizeof room, &done) == AN_OK && done == sizeof room);
    for (int at = 0; at < READS; at++)
        MUST(an_fileRead(file, 0, room, sizeof room, &done) == AN_OK && done == sizeof room);
    puts("ready");
    fflush(stdout);
    getchar();
    MUST(an_nodeDisconnect(node) == AN_OK);
    puts("ok");
    return 0;
}
