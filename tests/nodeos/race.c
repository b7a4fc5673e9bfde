/* Calls that race with the destruction of their objects: every one gives an error of the header or works. Threads
 * send, create and destroy on domains and channels that another thread ends all the time. Prints "ok" at the end. */
#include <anode/nodeos.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 300, THREADS = 4 };

static an_Node_t node;
static _Atomic(an_Domain_t) domain;
static _Atomic(an_OutChan_t) out;
static _Atomic(an_InChan_t) in;
static atomic_int over;

static void may(int error, const char *what)
{
    /* What a call may say of an object that somebody else destroys. */
    if (error != AN_OK && error != AN_ESTALE && error != AN_EINVAL && error != AN_ELIMIT && error != AN_EEXIST
        && error != AN_EAGAIN) {
        printf("%s: %s\n", what, an_strerror(error));
        exit(1);
    }
}

static void deliver(an_InChan_t chan, an_PacketBuffer_t packet, const struct an_Ends *ends, void *arg)
{
    (void)ends, (void)arg;
    may(an_pktbufFree(packet), "free");
    may(an_inchanDestroy(chan), "destroy in deliver");
}

static void *meddle(void *arg)
{
    unsigned at = (unsigned)(size_t)arg;
    while (!atomic_load(&over)) {
        struct an_End to = {.address = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 2}};
        an_PacketBuffer_t packet = an_pktbufAlloc(atomic_load(&domain));
        may(packet ? 0 : an_error(), "alloc");
        if (packet) {
            may(an_pktbufResize(packet, 64), "resize");
            int sent = an_outchanSend(atomic_load(&out), &to, packet);
            may(sent, "send");
            if (sent)
                may(an_pktbufFree(packet), "free");
        }
        struct an_Usage usage;
        may(an_domainUsage(atomic_load(&domain), &usage), "usage");
        switch (at++ % 4) {
        case 0:
            may(an_inchanDestroy(atomic_load(&in)), "destroy in");
            break;
        case 1:
            may(an_outchanDestroy(atomic_load(&out)), "destroy out");
            break;
        case 2:
            an_domainDestroy(an_domainCreate(0, atomic_load(&domain), 0, 0));
            may(an_error(), "destroy below");
            break;
        default:
            may(an_domainTerminate(atomic_load(&domain)), "terminate");
        }
    }
    return 0;
}

int main(void)
{
    node = an_nodeConnect(0, &(struct an_NodeSpec){.cred = an_credCreate(0, "ee")});
    if (!node)
        return puts(an_strerror(an_error())), 1;
    pthread_t threads[THREADS];
    for (size_t at = 0; at < THREADS; at++)
        pthread_create(&threads[at], 0, meddle, (void *)at);
    for (int round = 0; round < ROUNDS; round++) {
        an_Domain_t fresh = an_domainCreate(0, an_domainSelf(node), &(struct an_ThreadPoolSpec){.maxthreads = 2}, 0);
        may(fresh ? 0 : an_error(), "create");
        an_Domain_t before = atomic_exchange(&domain, fresh);
        atomic_store(&in, an_inchanCreate(0, fresh, 0, "if1/anep", "type 301", 0, deliver, 0));
        atomic_store(&out, an_outchanCreate(0, fresh, "if0/anep", "type 301", 0));
        may(an_domainDestroy(before), "destroy");
    }
    atomic_store(&over, 1);
    for (int at = 0; at < THREADS; at++)
        pthread_join(threads[at], 0);
    if (an_nodeDisconnect(node))
        return puts("disconnect"), 1;
    puts("ok");
    return 0;
}
