/* The rates of streams, by the node's clock. Words: an address that its role lets it listen at and connect to, the bytes a second that it
 * may send, and the streams that may begin in a second. Whoever is held to a rate cannot be earlier, on whatever machine; only that is
 * looked at. Prints a line for each rate. */
#include <anode/nodeos.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 4096, BLOCKS = 75, STREAMS = 12 };

/* What may be ahead: bytes of 10 ms, and blocks on their way; streams that may begin at once. */
enum { HELD = 16 << 10, BURST = 6 };

#define MUST(...) do { if (!(__VA_ARGS__)) { printf("%s: %s\n", #__VA_ARGS__, an_strerror(an_error())); exit(1); } } while (0)

static unsigned long long now(an_Node_t node)
{
    uint64_t time;
    MUST(an_timeNow(node, &time) == AN_OK);
    return time;
}

int main(int count, char **words)
{
    static char block[BLOCK];
    MUST(count == 4);
    unsigned long long bandwidth = strtoull(words[2], 0, 10), rate = strtoull(words[3], 0, 10);
    an_Node_t node = an_nodeConnect(0, &(struct an_NodeSpec){.title = "paced", .cred = an_credCreate(0, "ee")});
    MUST(node);
    an_Domain_t own = an_domainSelf(node);
    an_StreamChan_t chan = an_streamListen(0, own, words[1]);
    an_Stream_t stream, other;
    MUST(chan && (stream = an_streamConnect(0, own, words[1])) && (other = an_streamAccept(0, chan, -1, 0)));
    unsigned long long begun = now(node);
    for (int at = 0; at < BLOCKS; at++) {
        size_t done, read = 0;
        MUST(an_streamWrite(stream, block, BLOCK, -1, &done) == AN_OK && done == BLOCK);
        for (; read < BLOCK; read += done)
            MUST(an_streamRead(other, block, BLOCK - read, -1, &done) == AN_OK && done);
    }
    unsigned long long least = (BLOCKS * BLOCK - HELD) * 1000000000ull / bandwidth - 10000000;
    printf("bandwidth %d\n", now(node) - begun >= least);
    begun = now(node);
    for (int at = 0; at < STREAMS; at++) {
        while (!(stream = an_streamConnect(0, own, words[1])))
            MUST(an_error() == AN_EAGAIN);
        MUST((other = an_streamAccept(0, chan, -1, 0)) && !an_streamClose(stream) && !an_streamClose(other));
    }
    least = (2 * STREAMS - BURST) * 1000000000ull / rate;
    printf("begun %d\n", now(node) - begun >= least);
    return an_nodeDisconnect(node);
}
