/* Every function of nodeos.h with every bad argument: each must give the header's error. ANODE_NODEOS names the node;
 * the role "ee" grants channels, domains and memory. Prints "ok" at the end. */
#include <anode/nodeos.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* HERE: it is an object in the node's process. */
#ifdef HERE
enum { ROOM = 1888, LATER = AN_ESHUTDOWN, GONE = AN_ESHUTDOWN };
#else
enum { ROOM = 1984, LATER = AN_OK, GONE = AN_ESTALE };
#endif

static int wrong;

static void expect(int got, int want, const char *what, int line)
{
    if (got == want)
        return;
    printf("line %d: %s: %d (%s), not %d\n", line, what, got, got < 0 ? "an object" : an_strerror(got), want);
    wrong = 1;
}

/* What a call that creates says: AN_OK, or why not. */
static int made(void *object)
{
    return object ? AN_OK : an_error() ? an_error() : -1;
}

#define EXPECT(want, ...) expect((__VA_ARGS__), want, #__VA_ARGS__, __LINE__)
#define GOOD(object) ({ void *it_ = (object); EXPECT(AN_OK, made(it_)); it_; })

struct bad { void *object; int error; };
static struct bad bads[16];
static int nbads;

/* The call with every object X that is not what it wants. */
#define EACH_BAD(X, ...)                                                                    \
    do {                                                                                    \
        for (int at = 0; at < nbads; at++) {                                                \
            void *X = bads[at].object;                                                      \
            int got = (__VA_ARGS__);                                                        \
            if (got != bads[at].error) {                                                    \
                printf("bad object %d: ", at);                                              \
                expect(got, bads[at].error, #__VA_ARGS__, __LINE__);                        \
            }                                                                               \
        }                                                                                   \
    } while (0)

static void bad(void *object, int error)
{
    bads[nbads++] = (struct bad){object, error};
}

static void deliver(an_InChan_t in, an_PacketBuffer_t packet, const struct an_Ends *ends, void *arg)
{
    (void)in, (void)ends, (void)arg;
    an_pktbufFree(packet);
}

static void on_event(an_Event_t event, void *arg)
{
    (void)event, (void)arg;
}

static void nothing(void *arg)
{
    (void)arg;
}

static char memory[4][16] __attribute__((aligned(16)));

int main(void)
{
    char long_text[2000];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = 0;
    uint64_t now;
    size_t length, done;
    struct an_Usage usage;
    char room[64];

    /* Credentials and connections. */
    EXPECT(AN_EINVAL, made(an_credCreate(0, 0)));
    EXPECT(AN_EINVAL, made(an_credCreate(0, "")));
    EXPECT(AN_EINVAL, made(an_credCreate(0, long_text)));
    EXPECT(AN_EINVAL, made(an_credCreate(memory[0] + 1, "ee")));
    an_Cred_t cred = GOOD(an_credCreate(0, "ee")), nobody = GOOD(an_credCreate(0, "nobody"));
    an_Cred_t explicit_cred = GOOD(an_credCreate(memory[0], "ee"));
    EXPECT(1, (void *)explicit_cred == memory[0]);
    EXPECT(AN_EINVAL, made(an_credCreate(memory[0], "ee")));
    EXPECT(AN_OK, an_credDestroy(explicit_cred));
    EXPECT(AN_ESTALE, an_credDestroy(explicit_cred));
    an_Cred_t stale_cred = GOOD(an_credCreate(memory[2], "ee"));
    EXPECT(AN_OK, an_credDestroy(stale_cred));
    EXPECT(AN_ENOENT, made(an_nodeConnect(0, &(struct an_NodeSpec){.path = "/nowhere/nodeos.sock"})));
    EXPECT(AN_EINVAL, made(an_nodeConnect(0, &(struct an_NodeSpec){.path = long_text})));
    EXPECT(AN_ENOENT, made(an_nodeConnect(0, &(struct an_NodeSpec){.cred = nobody})));
    EXPECT(AN_ESTALE, made(an_nodeConnect(0, &(struct an_NodeSpec){.cred = stale_cred})));
    EXPECT(AN_EINVAL, made(an_nodeConnect(0, &(struct an_NodeSpec){.cred = cred, .title = long_text})));
    EXPECT(AN_EINVAL, made(an_nodeConnect(0, &(struct an_NodeSpec){.cred = cred, .title = "a\nb"})));
    EXPECT(AN_EINVAL, made(an_nodeConnect(0, &(struct an_NodeSpec){.cred = cred, .busypoll_us = ~0u})));
    EXPECT(AN_EINVAL, made(an_nodeConnect(memory[0] + 8, 0)));
    for (int at = 0; at < 4; at++) {
        struct an_ThreadPoolSpec threads[] = {{0, 0, 0, 0}, {-1, 0, 0, 0}, {65, 0, 0, 0}, {1, 1u << 31, 0, 0}};
        EXPECT(AN_EINVAL, made(an_nodeConnect(0, &(struct an_NodeSpec){.cred = cred, .threads = &threads[at]})));
    }
    struct an_ThreadPoolSpec many = {.maxthreads = 64}, two = {.maxthreads = 2}, own = {.maxthreads = 1, .own = 1};
    EXPECT(AN_EINVAL, made(an_nodeConnect(0, &(struct an_NodeSpec){.threads = &(struct an_ThreadPoolSpec){1, 0, 2, 0}})));
    EXPECT(AN_ELIMIT, made(an_nodeConnect(0, &(struct an_NodeSpec){.cred = cred, .threads = &many})));
    struct an_ThreadPoolSpec slow = {.maxthreads = 1, .holdms = ~0u};
    EXPECT(AN_ELIMIT, made(an_nodeConnect(0, &(struct an_NodeSpec){.cred = cred, .threads = &slow})));
    an_Node_t node = GOOD(an_nodeConnect(memory[0], &(struct an_NodeSpec){.cred = cred, .threads = &two}));
    an_Node_t other_node = GOOD(an_nodeConnect(0, &(struct an_NodeSpec){.cred = cred}));
    an_Domain_t domain = GOOD(an_domainSelf(node)), other = GOOD(an_domainSelf(other_node));

    /* What is no object, or not any more, or of another kind. */
    an_Domain_t gone_domain = GOOD(an_domainCreate(0, domain, 0, 0));
    EXPECT(AN_OK, an_domainDestroy(gone_domain));
    an_PacketBuffer_t gone_packet = GOOD(an_pktbufAlloc(domain));
    EXPECT(AN_OK, an_pktbufFree(gone_packet));
    bad(0, AN_EINVAL);
    bad(room, AN_ESTALE);
    bad((void *)1, AN_ESTALE);
    bad((void *)UINTPTR_MAX, AN_ESTALE);
    bad((void *)(UINTPTR_MAX / 2 + 1), AN_ESTALE);
    bad(gone_domain, AN_ESTALE);
    bad(gone_packet, AN_ESTALE);
    bad(cred, AN_EINVAL);
    EACH_BAD(X, an_nodeDisconnect(X));
    EACH_BAD(X, an_timeNow(X, &now));
    EACH_BAD(X, made(an_domainSelf(X)));
    EACH_BAD(X, made(an_domainCreate(0, X, 0, 0)));
    EACH_BAD(X, an_domainTerminate(X));
    EACH_BAD(X, an_domainDestroy(X));
    EACH_BAD(X, an_domainUsage(X, &usage));
    EACH_BAD(X, an_domainWait(X));
    EACH_BAD(X, an_threadCreate(X, nothing, 0));
    EACH_BAD(X, an_threadEnter(X, 0));
    EACH_BAD(X, made(an_eventSchedule(0, X, 1, on_event, 0)));
    EACH_BAD(X, an_eventCancel(X));
    EACH_BAD(X, made(an_mempoolCreate(0, X, &(struct an_MemPoolSpec){.limit = 4096, .deadline_ms = 10})));
    EACH_BAD(X, an_mempoolDestroy(X));
    EACH_BAD(X, an_mempoolCharge(X, 1));
    EACH_BAD(X, made(an_heapCreate(0, X, 0)));
    EACH_BAD(X, made(an_heapAlloc(X, 16)));
    EACH_BAD(X, an_heapFree(X, room));
    EACH_BAD(X, an_heapDestroy(X));
    EACH_BAD(X, made(an_pktbufAlloc(X)));
    EACH_BAD(X, an_pktbufFree(X));
    EACH_BAD(X, made(an_pktbufData(X)));
    EACH_BAD(X, an_pktbufLength(X, &length));
    EACH_BAD(X, an_pktbufResize(X, 1));
    EACH_BAD(X, an_pktbufTrim(X, 0));
    EACH_BAD(X, made(an_inchanCreate(0, X, 0, "if1/anep", "type 200", 0, deliver, 0)));
    EACH_BAD(X, an_inchanDestroy(X));
    EACH_BAD(X, made(an_outchanCreate(0, X, "if0/anep", "type 200", 0)));
    EACH_BAD(X, an_outchanDestroy(X));
    EACH_BAD(X, an_outchanSend(X, 0, gone_packet));
    EACH_BAD(X, made(an_cutchanCreate(0, X, 0, "if1/anep", "type 200", "if0/anep", "type 201", 0)));
    EACH_BAD(X, an_cutchanDestroy(X));
    EACH_BAD(X, made(an_fileOpen(0, X, 0, "f", AN_FILE_WRITE | AN_FILE_CREATE)));
    EACH_BAD(X, an_fileRead(X, 0, room, sizeof room, &done));
    EACH_BAD(X, an_fileWrite(X, 0, room, sizeof room, &done));
    EACH_BAD(X, an_fileClose(X));
    EACH_BAD(X, an_fileUnlink(X, 0, "f"));
    struct an_FileStat stat;
    EACH_BAD(X, an_fileTruncate(X, 1));
    EACH_BAD(X, an_fileSync(X));
    EACH_BAD(X, an_fileStat(X, &stat));
    EACH_BAD(X, an_fileStatPath(X, 0, "f", &stat));
    EACH_BAD(X, an_fileMakeDirectory(X, 0, "d"));
    EACH_BAD(X, an_fileRename(X, 0, "f", "g"));
    EACH_BAD(X, an_fileNext(X, 0, 0, 0, room, sizeof room, 0));
    EACH_BAD(X, an_fileShare(X, "*", AN_ACCESS_READ));
    EXPECT(AN_EINVAL, an_credDestroy(0));
    EXPECT(AN_ESTALE, an_credDestroy((an_Cred_t)room));
    EXPECT(AN_EINVAL, an_credDestroy((an_Cred_t)node));

    /* Domains. */
    EXPECT(AN_EINVAL, made(an_domainCreate(memory[0], domain, 0, 0)));
    EXPECT(AN_EINVAL, made(an_domainCreate(room + 1, domain, 0, 0)));
    EXPECT(AN_EINVAL, made(an_domainCreate(0, domain, &(struct an_ThreadPoolSpec){0, 0, 0, 0}, 0)));
    EXPECT(AN_ELIMIT, made(an_domainCreate(0, domain, &many, 0)));
    EXPECT(AN_ELIMIT, made(an_domainCreate(0, domain, &slow, 0)));
    EXPECT(AN_EINVAL, made(an_domainCreate(0, domain, 0, &(struct an_DomainSpec){.title = long_text})));
    EXPECT(AN_EINVAL, made(an_domainCreate(0, domain, 0, &(struct an_DomainSpec){.title = "\xff\xfe"})));
    EXPECT(AN_EINVAL, made(an_domainCreate(0, domain, 0, &(struct an_DomainSpec){.pool = (void *)cred})));
    EXPECT(AN_ESTALE, made(an_domainCreate(0, domain, 0, &(struct an_DomainSpec){.cred = stale_cred})));
    EXPECT(AN_EINVAL, an_domainUsage(domain, 0));
    EXPECT(AN_OK, an_domainUsage(domain, &usage));
    EXPECT(AN_EINVAL, an_timeNow(node, 0));
    EXPECT(AN_OK, an_timeNow(node, &now));
    EXPECT(AN_EINVAL, an_threadCreate(domain, 0, 0));
    EXPECT(AN_EINVAL, an_threadEnter(domain, -2));
    EXPECT(AN_EINVAL, made(an_threadSelf()));
    EXPECT(AN_EINVAL, an_threadExit());
    EXPECT(AN_ELIMIT, an_threadEnter(domain, 0));
    an_Domain_t idle = GOOD(an_domainCreate(memory[1], domain, &own, 0));
    EXPECT(AN_OK, an_threadEnter(idle, 0));
    EXPECT(AN_OK, an_domainTerminate(idle));
    EXPECT(AN_ESTALE, an_domainTerminate(idle));
    EXPECT(AN_ESTALE, an_threadEnter(idle, 0));
    EXPECT(AN_ESTALE, an_threadCreate(idle, nothing, 0));
    EXPECT(AN_ESTALE, made(an_domainCreate(0, idle, 0, 0)));
    EXPECT(AN_ESTALE, made(an_pktbufAlloc(idle)));
    EXPECT(AN_ESTALE, made(an_outchanCreate(0, idle, "if0/anep", "type 200", 0)));
    EXPECT(AN_OK, an_domainWait(idle));
    EXPECT(AN_OK, an_domainDestroy(idle));
    EXPECT(AN_ESTALE, an_domainDestroy(idle));

    /* Memory. */
    EXPECT(AN_EINVAL, made(an_mempoolCreate(0, domain, 0)));
    EXPECT(AN_ELIMIT, made(an_mempoolCreate(0, domain, &(struct an_MemPoolSpec){.limit = 1ull << 50, .deadline_ms = 10})));
    EXPECT(AN_EINVAL, made(an_mempoolCreate(0, domain, &(struct an_MemPoolSpec){.parent = (void *)cred, .limit = 1 << 20})));
    an_MemPool_t pool = GOOD(an_mempoolCreate(0, domain, &(struct an_MemPoolSpec){.limit = 1 << 20, .deadline_ms = 1000}));
    EXPECT(AN_EACCES, made(an_mempoolCreate(0, other, &(struct an_MemPoolSpec){.parent = pool, .limit = 4096, .deadline_ms = 10})));
    EXPECT(AN_EACCES, made(an_domainCreate(0, other, 0, &(struct an_DomainSpec){.pool = pool})));
    EXPECT(AN_OK, an_mempoolCharge(pool, 4096));
    EXPECT(AN_EINVAL, an_mempoolCharge(pool, -4097));
    EXPECT(AN_OK, an_mempoolCharge(pool, -4096));
    an_Heap_t heap = GOOD(an_heapCreate(0, pool, 100000));
    EXPECT(AN_EINVAL, made(an_heapAlloc(heap, 0)));
    EXPECT(AN_EINVAL, made(an_heapAlloc(heap, SIZE_MAX)));
    EXPECT(AN_ELIMIT, made(an_heapAlloc(heap, 100001)));
    char *block = GOOD(an_heapAlloc(heap, 70000));
    memset(block, 1, 70000);
    EXPECT(AN_ELIMIT, made(an_heapAlloc(heap, 30001)));
    EXPECT(AN_EINVAL, an_heapFree(heap, block + 16));
    EXPECT(AN_OK, an_heapFree(heap, block));
    EXPECT(AN_EINVAL, an_heapFree(heap, block));
    EXPECT(AN_EINVAL, an_heapFree(heap, 0));
    EXPECT(AN_OK, an_heapDestroy(heap));

    /* Events. */
    EXPECT(AN_EINVAL, made(an_eventSchedule(0, domain, 1, 0, 0)));
    EXPECT(AN_EINVAL, made(an_eventSchedule(0, domain, UINT64_MAX, on_event, 0)));

    /* Channels. */
    EXPECT(AN_EINVAL, made(an_inchanCreate(0, domain, 0, "if1/anep", "type 200", 0, 0, 0)));
    EXPECT(AN_EINVAL, made(an_inchanCreate(0, domain, 0, 0, "type 200", 0, deliver, 0)));
    EXPECT(AN_EINVAL, made(an_inchanCreate(0, domain, 0, long_text, 0, 0, deliver, 0)));
    EXPECT(AN_ENOENT, made(an_inchanCreate(0, domain, 0, "if9/anep", "type 200", 0, deliver, 0)));
    EXPECT(AN_ENOSYS, made(an_inchanCreate(0, domain, 0, "if1/carrier-pigeon", "type 200", 0, deliver, 0)));
    EXPECT(AN_EINVAL, made(an_inchanCreate(0, domain, 0, "if1/anep", "kind 200", 0, deliver, 0)));
    struct an_KeyTuple tuple = {0, 1, 1, 1}, tuples[] = {{0, 0, 0, 0}, {0, 9, 0, 0}, {1 << 16, 1, 0, 0}, {0, 1, 0x100, 0x1ff}};
    for (int at = 0; at < 4; at++) {
        struct an_DemuxKey key = {1, &tuples[at]};
        EXPECT(AN_EINVAL, made(an_inchanCreate(0, domain, &key, "if1/anep", "type 200", 0, deliver, 0)));
    }
    struct an_DemuxKey keys[] = {{-1, &tuple}, {1, 0}, {1000, &tuple}};
    for (int at = 0; at < 3; at++)
        EXPECT(AN_EINVAL, made(an_inchanCreate(0, domain, &keys[at], "if1/anep", "type 200", 0, deliver, 0)));
    struct an_NetSpec nets[] = {{-1, 0, 0, 0}, {1 << 16, 0, 0, 0}, {0, 0, -1, 0}, {0, 0, 1 << 16, 0}};
    for (int at = 0; at < 4; at++) {
        EXPECT(AN_EINVAL, made(an_inchanCreate(0, domain, 0, "if1/anep", "type 200", &nets[at], deliver, 0)));
        EXPECT(AN_EINVAL, made(an_outchanCreate(0, domain, "if0/anep", "type 200", &nets[at])));
    }
    struct an_NetSpec buffers = {.pbufs = &gone_packet};
    EXPECT(AN_ENOSYS, made(an_inchanCreate(0, domain, 0, "if1/anep", "type 200", &buffers, deliver, 0)));
    an_InChan_t in = GOOD(an_inchanCreate(0, domain, 0, "if1/anep", "type 200", 0, deliver, 0));
    EXPECT(AN_EEXIST, made(an_inchanCreate(0, domain, 0, "if1/anep", "type 200", 0, deliver, 0)));
    EXPECT(AN_EEXIST, made(an_inchanCreate(0, other, 0, "if1/anep", "type 200", 0, deliver, 0)));
    EXPECT(AN_EINVAL, made(an_outchanCreate(0, domain, 0, 0, 0)));
    EXPECT(AN_ENOENT, made(an_outchanCreate(0, domain, "if9/anep", "type 200", 0)));
    EXPECT(AN_ENOSYS, made(an_outchanCreate(0, domain, "if0/ip/tcp", "*:1 -> 10.0.0.2:2", 0)));
    EXPECT(AN_EINVAL, made(an_outchanCreate(0, domain, "if0/anep", "", 0)));
    an_OutChan_t out = GOOD(an_outchanCreate(0, domain, "if0/anep", "type 200", 0));
    an_OutChan_t other_out = GOOD(an_outchanCreate(0, other, "if0/anep", "type 200", 0));
    EXPECT(AN_EINVAL, made(an_cutchanConcat(0, 0, out)));
    EXPECT(AN_EINVAL, made(an_cutchanConcat(0, in, 0)));
    EXPECT(AN_EINVAL, made(an_cutchanConcat(0, (void *)out, (void *)in)));
    EXPECT(AN_EACCES, made(an_cutchanConcat(0, in, other_out)));
    an_CutChan_t cut = GOOD(an_cutchanConcat(0, in, out));
    EXPECT(AN_EEXIST, made(an_cutchanConcat(0, in, out)));
    EXPECT(AN_OK, an_cutchanDestroy(cut));
    EXPECT(AN_ESTALE, an_cutchanDestroy(cut));
    EXPECT(AN_EEXIST, made(an_cutchanCreate(0, domain, 0, "if1/anep", "type 200", "if0/anep", "type 201", 0)));
    EXPECT(AN_EINVAL, made(an_cutchanCreate(0, domain, 0, "if1/anep", "type 202", 0, "type 201", 0)));
    cut = GOOD(an_cutchanCreate(0, domain, 0, "if1/anep", "type 202", "if0/anep", "type 201", 0));
    EXPECT(AN_OK, an_cutchanDestroy(cut));
    cut = GOOD(an_cutchanCreate(0, domain, 0, "if1/anep", "type 202", "if0/anep", "type 201", 0));
    EXPECT(AN_OK, an_cutchanDestroy(cut));

    /* Packets. */
    an_PacketBuffer_t packet = GOOD(an_pktbufAlloc(domain));
    EXPECT(AN_EINVAL, an_pktbufLength(packet, 0));
    EXPECT(AN_EINVAL, an_pktbufResize(packet, ROOM + 1));
    EXPECT(AN_EINVAL, an_pktbufResize(packet, SIZE_MAX));
    EXPECT(AN_OK, an_pktbufResize(packet, ROOM));
    EXPECT(AN_EINVAL, an_pktbufTrim(packet, ROOM + 1));
    EXPECT(AN_EINVAL, an_pktbufTrim(packet, -65));
    EXPECT(AN_EINVAL, an_pktbufTrim(packet, INT64_MIN));
    EXPECT(AN_EINVAL, an_pktbufTrim(packet, INT64_MAX));
    EXPECT(AN_OK, an_pktbufTrim(packet, -64));
    EXPECT(AN_OK, an_pktbufLength(packet, &length));
    EXPECT(ROOM + 64, (int)length);
    memset(an_pktbufData(packet), 7, length);
    struct an_End to = {.address = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 2}};
    EXPECT(AN_OK, an_pktbufResize(packet, 1000));
    EXPECT(AN_EACCES, an_outchanSend(other_out, 0, packet));
    EXPECT(AN_EINVAL, an_outchanSend(out, 0, 0));
    EXPECT(AN_ESTALE, an_outchanSend(out, 0, gone_packet));
    EXPECT(AN_EINVAL, an_outchanSend(out, 0, (void *)cred));
    EXPECT(AN_OK, an_outchanSend(out, &to, packet));
    EXPECT(AN_ESTALE, an_outchanSend(out, &to, packet));
    EXPECT(AN_ESTALE, an_pktbufFree(packet));
    static an_PacketBuffer_t all[512];
    int taken = 0;
    /* Those that were sent come back when the node has copied them. */
    while (taken < 512) {
        all[taken] = an_pktbufAlloc(domain);
        taken += all[taken] != 0;
    }
    EXPECT(AN_ELIMIT, made(an_pktbufAlloc(domain)));
    while (taken)
        EXPECT(AN_OK, an_pktbufFree(all[--taken]));

    /* Files. */
    EXPECT(AN_EINVAL, made(an_fileOpen(0, domain, 0, 0, AN_FILE_READ)));
    EXPECT(AN_EINVAL, made(an_fileOpen(0, domain, 0, long_text, AN_FILE_READ)));
    EXPECT(AN_EINVAL, made(an_fileOpen(0, domain, 0, "f", 128)));
    EXPECT(AN_EINVAL, made(an_fileOpen(0, domain, 0, "f", 0)));
    EXPECT(AN_EINVAL, made(an_fileOpen(0, domain, long_text, "f", AN_FILE_READ)));
    EXPECT(AN_EINVAL, an_fileUnlink(domain, 0, 0));
    EXPECT(AN_EINVAL, an_fileStatPath(domain, 0, 0, &stat));
    EXPECT(AN_ENOENT, an_fileStatPath(domain, 0, "none", &stat));
    EXPECT(AN_EINVAL, an_fileMakeDirectory(domain, 0, "a/../b"));
    EXPECT(AN_EINVAL, an_fileRename(domain, 0, "a", 0));
    EXPECT(AN_ENOENT, an_fileRename(domain, 0, "none", "some"));
    EXPECT(AN_ENOENT, an_fileNext(domain, 0, 0, 0, room, sizeof room, 0));
    EXPECT(AN_EINVAL, an_fileShare(domain, "a/b", AN_ACCESS_READ));
    EXPECT(AN_EINVAL, an_fileShare(domain, "*", 3));
    EXPECT(AN_EINVAL, an_fileShare(domain, "*", -1));
    an_File_t file = GOOD(an_fileOpen(0, domain, 0, "a name", AN_FILE_READ | AN_FILE_WRITE | AN_FILE_CREATE));
    EXPECT(AN_EINVAL, an_fileStat(file, 0));
    EXPECT(AN_EINVAL, an_fileStatPath(domain, 0, "a name", 0));
    EXPECT(AN_EINVAL, an_fileTruncate(file, UINT64_MAX));
    EXPECT(AN_ELIMIT, an_fileTruncate(file, 1ull << 40));
    EXPECT(AN_EINVAL, an_fileNext(domain, 0, 0, 0, room, 6, 0));
    EXPECT(AN_EINVAL, an_fileNext(domain, 0, 0, 0, 0, 0, 0));
    EXPECT(AN_OK, an_fileNext(domain, 0, 0, 0, room, 7, 0));
    EXPECT(AN_OK, an_fileClose(file));
    EXPECT(AN_OK, an_fileUnlink(domain, 0, "a name"));

    /* The end. */
    EXPECT(AN_OK, an_inchanDestroy(in));
    EXPECT(AN_ESTALE, an_inchanDestroy(in));
    EXPECT(AN_OK, an_outchanDestroy(out));
    EXPECT(AN_ESTALE, an_outchanDestroy(out));
    EXPECT(AN_OK, an_mempoolDestroy(pool));
    EXPECT(AN_OK, an_nodeDisconnect(node));
    EXPECT(AN_ESTALE, an_nodeDisconnect(node));
    EXPECT(AN_ESTALE, an_domainTerminate(domain));
    EXPECT(LATER, an_domainTerminate(other));
    EXPECT(AN_EACCES, an_outchanSend(other_out, 0, gone_packet));
    EXPECT(GONE, an_outchanDestroy(other_out));
    EXPECT(AN_OK, an_nodeDisconnect(other_node));
    EXPECT(0, strcmp(an_strerror(AN_OK), "AN_OK: done"));
    EXPECT(0, strncmp(an_strerror(AN_EIO), "AN_EIO: ", 8));
    EXPECT(0, strncmp(an_strerror(AN_ENOMEM), "AN_ENOMEM: ", 11));
    EXPECT(1, an_strerror(-1) == an_strerror(99));
    EXPECT(16, (int)an_objectSize());
    if (!wrong)
        puts("ok");
    return wrong;
}
