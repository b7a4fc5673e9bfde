/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * An active path over UDP: an in-channel if0/ip/udp, code that looks at every packet and edits its payload, an out-channel.
 * It is the experiment of "Snow on Silk": the path that goes through an environment, beside those that are cut through.
 *
 * The code knows one small protocol, so that it has something to look at: the first byte of a payload is a command. 'U' has
 * the rest put in capitals; 'N' has the number of packets so far put behind it (8 bytes, big endian); 'X' is not for others and
 * dropped; anything else passes as it is. Every packet goes back to whoever sent it if the out-address leaves that open.
 *
 *     … ./active_path ee 4 if0/ip/udp 10.0.1.2:5000 if0/ip/udp '*:5000 -> *:*'
 */
#include <anode/nodeos.h>
#include <ctype.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static atomic_ullong packets;

/* Edits a payload in place; 0 if the packet is to be dropped. */
static int edit(an_PacketBuffer_t packet, unsigned long long number)
{
    size_t length;
    if (an_pktbufLength(packet, &length) || length == 0)
        return 0;
    unsigned char *bytes = an_pktbufData(packet);
    switch (bytes[0]) {
    case 'U':
        for (size_t at = 1; at < length; at++)
            bytes[at] = toupper(bytes[at]);
        return 1;
    case 'N':
        if (an_pktbufResize(packet, length + 8))
            return 0;
        for (int at = 0; at < 8; at++)
            bytes[length + at] = number >> (56 - 8 * at);
        return 1;
    case 'X':
        return 0;
    default:
        return 1;
    }
}

static void deliver(an_InChan_t in, an_PacketBuffer_t packet, const struct an_Ends *ends, void *out)
{
    (void)in;
    unsigned long long number = atomic_fetch_add(&packets, 1) + 1;
    if (!edit(packet, number) || an_outchanSend(out, &ends->source, packet))
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
        return fprintf(stderr, "usage: %s ROLE THREADS IN-PROTOCOL IN-ADDRESS OUT-PROTOCOL OUT-ADDRESS\n", argv[0]), 2;
    an_Cred_t cred = an_credCreate(0, argv[1]);
    struct an_ThreadPoolSpec threads = {.maxthreads = atoi(argv[2])};
    struct an_NodeSpec spec = {.title = "active path", .cred = cred, .threads = &threads};
    an_Node_t node = an_nodeConnect(0, &spec);
    if (!node)
        return failed("connect");
    an_Domain_t domain = an_domainSelf(node);
    an_OutChan_t out = an_outchanCreate(0, domain, argv[5], argv[6], 0);
    if (!out)
        return failed(argv[6]);
    struct an_NetSpec net = {.npbufs = 512};
    if (!an_inchanCreate(0, domain, 0, argv[3], argv[4], &net, deliver, out))
        return failed(argv[4]);
    puts("ready");
    fflush(stdout);
    an_domainWait(domain);
    return an_nodeDisconnect(node);
}
