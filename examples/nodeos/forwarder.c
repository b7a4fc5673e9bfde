/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The smallest execution environment: packets for one address go on to another, unchanged.
 *
 *     cc -I sdk examples/nodeos/forwarder.c -lanode1 -o forwarder
 *     ANODE_NODEOS=/run/anode/r/nodeos.sock ./forwarder ROLE IN-PROTOCOL IN-ADDRESS OUT-PROTOCOL OUT-ADDRESS
 *     … ./forwarder ee if0/ip/udp 10.0.1.2:5000 if1/ip/udp '*:6000 -> 10.0.2.2:7000'
 */
#include <anode/nodeos.h>
#include <stdio.h>

/* The way of a packet: in by one channel, out by the other. What cannot go now is dropped. */
static void deliver(an_InChan_t in, an_PacketBuffer_t packet, const struct an_Ends *ends, void *out)
{
    (void)in;
    (void)ends;
    if (an_outchanSend(out, 0, packet))
        an_pktbufFree(packet);
}

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, an_strerror(an_error()));
    return 1;
}

int main(int argc, char **argv)
{
    if (argc != 6)
        return fprintf(stderr, "usage: %s ROLE IN-PROTOCOL IN-ADDRESS OUT-PROTOCOL OUT-ADDRESS\n", argv[0]), 2;
    an_Cred_t cred = an_credCreate(0, argv[1]);
    an_Node_t node = an_nodeConnect(0, &(struct an_NodeSpec){.title = "forwarder", .cred = cred});
    if (!node)
        return failed("connect");
    an_Domain_t domain = an_domainSelf(node);
    an_OutChan_t out = an_outchanCreate(0, domain, argv[4], argv[5], 0);
    if (!out)
        return failed(argv[5]);
    if (!an_inchanCreate(0, domain, 0, argv[2], argv[3], 0, deliver, out))
        return failed(argv[3]);
    puts("ready");
    fflush(stdout);
    an_domainWait(domain);
    return an_nodeDisconnect(node);
}
