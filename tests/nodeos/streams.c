/* TCP streams of a program, on the host's loopback: what is granted, what is not, what ends with whom. Words: the ports that the role
 * grants to listen at, one beside them that it does not, and one that it may connect to where nobody listens. Prints "ok" at the end. */
#include <anode/nodeos.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "await.h"

static an_Node_t node;
static an_Domain_t own;
static char granted[64], denied[64], silent[64];

static void die(int line, const char *what)
{
    printf("line %d: %s: %s\n", line, what, an_strerror(an_error()));
    exit(1);
}

#define MUST(...) do { if (!(__VA_ARGS__)) die(__LINE__, #__VA_ARGS__); } while (0)
#define FAILS(error, ...) MUST(!(__VA_ARGS__) && an_error() == error)

/* Begins a stream to a channel of the program's own. The role lets few begin at once. */
static an_Stream_t begin(an_Domain_t domain, an_StreamChan_t chan, an_Stream_t *other)
{
    an_Stream_t stream;
    struct an_Ends ends;
    while (!(stream = an_streamConnect(0, domain, granted)))
        MUST(an_error() == AN_EAGAIN);
    while (!(*other = an_streamAccept(0, chan, 0, &ends)))
        MUST(an_error() == AN_EAGAIN);
    MUST(ends.source.known && ends.source.address[12] == 127 && ends.source.port && ends.destination.known);
    return stream;
}

static void refusals(an_StreamChan_t chan)
{
    char byte;
    size_t bytes;
    FAILS(AN_EACCES, an_streamListen(0, own, denied));
    FAILS(AN_EACCES, an_streamListen(0, own, "0.0.0.0:80"));
    FAILS(AN_EACCES, an_streamConnect(0, own, denied));
    FAILS(AN_EACCES, an_streamConnect(0, own, "10.0.0.1:80"));
    FAILS(AN_EINVAL, an_streamConnect(0, own, "localhost:80"));
    FAILS(AN_EINVAL, an_streamConnect(0, own, "127.0.0.1:0"));
    FAILS(AN_EINVAL, an_streamListen(0, own, 0));
    FAILS(AN_EEXIST, an_streamListen(0, own, granted));
    FAILS(AN_EINVAL, an_streamAccept(0, chan, -2, 0));
    FAILS(AN_EAGAIN, an_streamAccept(0, chan, 0, 0));
    MUST(an_streamClose((an_Stream_t)chan) == AN_EINVAL && an_streamChanDestroy(0) == AN_EINVAL);
    an_Stream_t nobody = an_streamConnect(0, own, silent);
    MUST(nobody && an_streamRead(nobody, &byte, 1, -1, &bytes) == AN_ENOENT && bytes == 0);
    /* Whoever asks again is told the same. */
    MUST(an_streamRead(nobody, &byte, 1, -1, &bytes) == AN_ENOENT && bytes == 0);
    MUST(an_streamRead(nobody, 0, 1, -1, &bytes) == AN_EINVAL);
    MUST(an_streamClose(nobody) == AN_OK && an_streamClose(nobody) == AN_ESTALE);
}

/* Who writes stops when nobody reads, and goes on when somebody does; an end is an end. */
static void bytes(an_StreamChan_t chan)
{
    static char out[1 << 16], in[1 << 16];
    an_Stream_t other, stream = begin(own, chan, &other);
    size_t written = 0, read = 0, done;
    MUST(an_streamRead(stream, in, sizeof in, 0, &done) == AN_EAGAIN && done == 0);
    for (size_t at = 0; at < sizeof out; at++)
        out[at] = (char)(at * 7);
    int code;
    do {
        code = an_streamWrite(stream, out, sizeof out, 50, &done);
        written += done;
    } while (code == AN_OK);
    MUST(code == AN_EAGAIN && written > sizeof out);
    MUST(an_streamFinish(stream) == AN_OK);
    while (an_streamRead(other, in, sizeof in, -1, &done) == AN_OK && done)
        for (size_t at = 0; at < done; at++, read++)
            MUST(in[at] == out[read % sizeof out]);
    MUST(read == written);
    MUST(an_streamWrite(other, "back", 4, -1, &done) == AN_OK && an_streamClose(other) == AN_OK);
    MUST(an_streamRead(stream, in, sizeof in, -1, &done) == AN_OK && done == 4 && !memcmp(in, "back", 4));
    MUST(an_streamRead(stream, in, sizeof in, -1, &done) == AN_OK && done == 0);
    MUST(an_streamClose(stream) == AN_OK);
}

static void *wait_for_more(void *arg)
{
    char byte;
    size_t done;
    int code = an_streamRead(arg, &byte, 1, -1, &done);
    MUST(done == 0 && (code == AN_OK || code == AN_ESTALE));
    return 0;
}

/* As many as the role says, no more; with a domain end its streams, and who waits is woken. */
static void endings(an_StreamChan_t chan)
{
    pthread_t thread;
    char byte;
    size_t done;
    an_Domain_t below = an_domainCreate(0, own, 0, 0);
    MUST(below);
    an_Stream_t others[2], other, stream = begin(below, chan, &other), streams[2], beyond;
    MUST(an_domainDestroy(below) == AN_OK);
    int code = an_streamRead(other, &byte, 1, -1, &done);
    MUST(done == 0 && (code == AN_OK || code == AN_EIO));
    MUST(an_streamClose(stream) == AN_ESTALE && an_streamClose(other) == AN_OK);
    for (int at = 0; at < 2; at++)
        streams[at] = begin(own, chan, &others[at]);
    while (!(beyond = an_streamConnect(0, own, granted)) && an_error() == AN_EAGAIN)
        ;
    MUST(!beyond && an_error() == AN_ELIMIT);
    MUST(!pthread_create(&thread, 0, wait_for_more, others[1]));
    MUST(an_streamClose(others[1]) == AN_OK && !pthread_join(thread, 0));
    MUST(an_streamClose(streams[0]) == AN_OK && an_streamClose(others[0]) == AN_OK && an_streamClose(streams[1]) == AN_OK);
}

int main(int count, char **words)
{
    MUST(count == 4);
    snprintf(granted, sizeof granted, "127.0.0.1:%s", words[1]);
    snprintf(denied, sizeof denied, "127.0.0.1:%s", words[2]);
    snprintf(silent, sizeof silent, "127.0.0.1:%s", words[3]);
    MUST(node = an_nodeConnect(0, &(struct an_NodeSpec){.title = "streams", .cred = an_credCreate(0, "ee")}));
    own = an_domainSelf(node);
    an_StreamChan_t chan = an_streamListen(0, own, granted);
    MUST(chan);
    refusals(chan);
    bytes(chan);
    endings(chan);
    MUST(an_streamChanDestroy(chan) == AN_OK && an_streamChanDestroy(chan) == AN_ESTALE);
    an_Node_t anyone = an_nodeConnect(0, 0);
    MUST(anyone);
    FAILS(AN_EACCES, an_streamListen(0, an_domainSelf(anyone), granted));
    FAILS(AN_EACCES, an_streamConnect(0, an_domainSelf(anyone), granted));
    MUST(an_nodeDisconnect(anyone) == AN_OK && an_nodeDisconnect(node) == AN_OK);
    puts("ok");
    return 0;
}
