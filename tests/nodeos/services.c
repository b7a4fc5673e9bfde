/* Events, functions, memory and files of a domain, used by a program in C. Prints "ok" at the end. */
#include "await.h"
#include <anode/nodeos.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EVENTS = 500 };

static an_Node_t node;
static an_Domain_t domain;
static atomic_int came, never, chain, ended;
static uint64_t due[EVENTS];

static void die(const char *what)
{
    printf("%s: %s\n", what, an_strerror(an_error()));
    exit(1);
}

#define MUST(...) do { if (!(__VA_ARGS__)) die(#__VA_ARGS__); } while (0)

static void on_time(an_Event_t event, void *arg)
{
    uint64_t now;
    an_timeNow(node, &now);
    if (now < due[(size_t)arg])
        die("too early");
    if (an_eventCancel(event) != AN_ESTALE || an_domainSelf(node) != domain)
        die("an event that has come");
    count_up(&came);
}

static void on_never(an_Event_t event, void *arg)
{
    (void)event, (void)arg;
    atomic_fetch_add(&never, 1);
}

static void again(an_Event_t event, void *arg)
{
    (void)event;
    if (count_up(&chain) < 20)
        MUST(an_eventSchedule(0, domain, 1, again, arg));
}

static void run(void *arg)
{
    count_up((atomic_int *)arg);
}

static void on_end(an_Domain_t which, void *arg)
{
    (void)which;
    count_up((atomic_int *)arg);
}

static void events(void)
{
    static an_Event_t taken_back[EVENTS];
    for (size_t at = 0; at < EVENTS; at++) {
        uint64_t now;
        an_timeNow(node, &now);
        due[at] = now + (at % 50) * 1000000ull;
        MUST(an_eventSchedule(0, domain, at % 50, on_time, (void *)at));
        MUST(taken_back[at] = an_eventSchedule(0, domain, 3600000, on_never, 0));
    }
    for (size_t at = 0; at < EVENTS; at++) {
        MUST(an_eventCancel(taken_back[at]) == AN_OK);
        MUST(an_eventCancel(taken_back[at]) == AN_ESTALE);
    }
    MUST(an_eventSchedule(0, domain, 0, again, 0));
    await_count(&came, EVENTS);
    await_count(&chain, 21);
    /* The role grants 1000 that wait. */
    int waiting = 0;
    while (an_eventSchedule(0, domain, 3600000, on_never, 0))
        waiting++;
    MUST(an_error() == AN_ELIMIT && waiting == 1000);
}

static void files(void)
{
    static char out[100000], in[100001];
    for (size_t at = 0; at < sizeof out; at++)
        out[at] = (char)(at * 7);
    size_t done;
    an_File_t file;
    MUST(!an_fileOpen(0, domain, 0, "none", AN_FILE_READ) && an_error() == AN_ENOENT);
    MUST(!an_fileOpen(0, domain, 0, "../up", AN_FILE_READ) && an_error() == AN_EINVAL);
    MUST(file = an_fileOpen(0, domain, 0, "data", AN_FILE_READ | AN_FILE_WRITE | AN_FILE_CREATE));
    MUST(an_fileWrite(file, 0, out, sizeof out, &done) == AN_OK && done == sizeof out);
    MUST(an_fileRead(file, 0, in, sizeof in, &done) == AN_OK && done == sizeof out && !memcmp(in, out, sizeof out));
    MUST(an_fileRead(file, 99990, in, sizeof in, &done) == AN_OK && done == 10);
    MUST(an_fileWrite(file, 1u << 30, out, 1, &done) == AN_ELIMIT);
    MUST(an_fileClose(file) == AN_OK && an_fileClose(file) == AN_ESTALE);
    MUST(!an_fileOpen(0, domain, 0, "data", AN_FILE_WRITE | AN_FILE_CREATE | AN_FILE_EXCLUSIVE) && an_error() == AN_EEXIST);
    /* A domain below uses the same name space. */
    an_Domain_t below = an_domainCreate(0, domain, 0, 0);
    MUST(file = an_fileOpen(0, below, 0, "data", AN_FILE_READ));
    MUST(an_fileWrite(file, 0, out, 1, &done) == AN_EACCES);
    MUST(an_domainDestroy(below) == AN_OK);
    MUST(an_fileRead(file, 0, in, 1, &done) == AN_ESTALE);
    MUST(an_fileUnlink(domain, 0, "data") == AN_OK && an_fileUnlink(domain, 0, "data") == AN_ENOENT);
    MUST(!an_fileOpen(0, domain, "somebody", "data", AN_FILE_READ));
}

/* Sizes, names and directories, and what others may see of them. */
static void names(void)
{
    struct an_FileStat stat;
    char name[256], all[64] = "";
    an_File_t file;
    MUST(an_fileMakeDirectory(domain, 0, "d") == AN_OK && an_fileMakeDirectory(domain, 0, "d") == AN_EEXIST);
    MUST(file = an_fileOpen(0, domain, 0, "d/b", AN_FILE_READ | AN_FILE_WRITE | AN_FILE_CREATE));
    MUST(an_fileTruncate(file, 5000) == AN_OK && an_fileSync(file) == AN_OK);
    MUST(an_fileStat(file, &stat) == AN_OK && stat.size == 5000 && !stat.directory && stat.modified_ns > 1500000000ull << 30);
    MUST(an_fileClose(file) == AN_OK);
    MUST(file = an_fileOpen(0, domain, 0, "d/b", AN_FILE_READ));
    MUST(an_fileTruncate(file, 1) == AN_EACCES && an_fileClose(file) == AN_OK);
    MUST(file = an_fileOpen(0, domain, 0, "d/c", AN_FILE_WRITE | AN_FILE_CREATE));
    MUST(an_fileClose(file) == AN_OK && an_fileRename(domain, 0, "d/c", "d/a") == AN_OK);
    MUST(an_fileStatPath(domain, 0, "d", &stat) == AN_OK && stat.directory && stat.size == 0);
    for (const char *after = 0; an_fileNext(domain, 0, "d", after, name, sizeof name, &stat) == AN_OK; after = name)
        strcat(strcat(all, name), stat.size ? "+" : "-");
    MUST(an_error() == AN_ENOENT && !strcmp(all, "a-b+"));
    MUST(an_fileUnlink(domain, 0, "d") == AN_EEXIST);
    MUST(an_fileUnlink(domain, 0, "d/a") == AN_OK && an_fileUnlink(domain, 0, "d/b") == AN_OK && an_fileUnlink(domain, 0, "d") == AN_OK);
    MUST(an_fileNext(domain, 0, 0, 0, name, sizeof name, 0) == AN_ENOENT);
    MUST(an_fileShare(domain, "somebody", AN_ACCESS_READ) == AN_OK && an_fileShare(domain, "somebody", AN_ACCESS_NONE) == AN_OK);
}

int main(void)
{
    an_Cred_t cred = an_credCreate(0, "ee");
    struct an_ThreadPoolSpec threads = {.maxthreads = 4};
    struct an_NodeSpec spec = {.title = "services", .cred = cred, .threads = &threads};
    MUST(node = an_nodeConnect(0, &spec));
    domain = an_domainSelf(node);
    events();
    atomic_int ran = 0;
    for (int at = 0; at < 100; at++)
        MUST(an_threadCreate(domain, run, &ran) == AN_OK);
    await_count(&ran, 100);
    files();
    names();
    /* The end of a domain takes its events with it, and its own end is told by whoever causes it. */
    an_Domain_t below = an_domainCreate(0, domain, 0, &(struct an_DomainSpec){.endfunc = on_end, .endarg = &ended});
    MUST(an_eventSchedule(0, domain, 3600000, on_never, 0) == 0);
    MUST(an_eventSchedule(0, below, 1, on_never, 0) || an_error() == AN_ELIMIT);
    MUST(an_domainTerminate(below) == AN_OK && an_domainWait(below) == AN_OK);
    MUST(atomic_load(&ended) == 1);
    MUST(an_nodeDisconnect(node) == AN_OK);
    MUST(atomic_load(&never) <= 1);
    puts("ok");
    return 0;
}
