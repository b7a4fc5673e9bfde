/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The trivial active network of the OKE Corral: packets carry changes of the data path, which this environment makes.
 *
 *     cc -I sdk examples/nodeos/corral.c -lanode1 -o corral
 *     ANODE_NODEOS=/run/anode/r/nodeos.sock ./corral ROLE GRAPH IN-PROTOCOL IN-ADDRESS OUT-PROTOCOL OUT-ADDRESS
 *     … ./corral corral path if0/ip/udp 10.0.1.2:9000 if0/ip/udp '*:9000 -> *:*'
 *
 * The payload of an active packet is three parts with a newline between them: connections that go, engines that go, and
 * statements that come. The answer is the number of the generation that runs from then on, or why none does.
 */
#include <anode/nodeos.h>
#include <stdio.h>
#include <string.h>

enum { CODE_MAX = 1400 };

static an_Domain_t domain;
static const char *graph;

/* Ends a part at its newline; what is behind it. */
static char *behind(char *part)
{
    char *end = strchr(part, '\n');
    if (!end)
        return part + strlen(part);
    *end = 0;
    return end + 1;
}

/* Makes the change that a packet carries, and says what has come of it. */
static void change(char *code, char *said, size_t room)
{
    char *removed = behind(code), *connected = behind(removed);
    unsigned generation;
    size_t length;
    struct an_GraphEdit edit = {.disconnect = code, .remove = removed, .connect = connected};
    if (an_graphEdit(domain, graph, &edit, &generation) == AN_OK)
        snprintf(said, room, "generation %u", generation);
    else
        an_graphWhy(said, room, &length);
}

static void deliver(an_InChan_t in, an_PacketBuffer_t packet, const struct an_Ends *ends, void *out)
{
    (void)in;
    char code[CODE_MAX + 1], said[CODE_MAX + 1] = "";
    size_t length = 0;
    if (an_pktbufLength(packet, &length) == AN_OK && length <= CODE_MAX) {
        memcpy(code, an_pktbufData(packet), length);
        code[length] = 0;
        change(code, said, sizeof said);
    }
    if (an_pktbufResize(packet, strlen(said)) == AN_OK)
        memcpy(an_pktbufData(packet), said, strlen(said));
    if (an_outchanSend(out, &ends->source, packet))
        an_pktbufFree(packet);
}

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, an_strerror(an_error()));
    return 1;
}

int main(int argc, char **argv)
{
    if (argc != 7)
        return fprintf(stderr, "usage: %s ROLE GRAPH IN-PROTOCOL IN-ADDRESS OUT-PROTOCOL OUT-ADDRESS\n", argv[0]), 2;
    an_Cred_t cred = an_credCreate(0, argv[1]);
    an_Node_t node = an_nodeConnect(0, &(struct an_NodeSpec){.title = "corral", .cred = cred});
    if (!node)
        return failed("connect");
    domain = an_domainSelf(node), graph = argv[2];
    an_OutChan_t out = an_outchanCreate(0, domain, argv[5], argv[6], 0);
    if (!out)
        return failed(argv[6]);
    if (!an_inchanCreate(0, domain, 0, argv[3], argv[4], 0, deliver, out))
        return failed(argv[4]);
    puts("ready");
    fflush(stdout);
    an_domainWait(domain);
    return an_nodeDisconnect(node);
}
