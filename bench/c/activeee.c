// activeee ROLE BUSYPOLL_US IN-PROTOCOL IN-ADDRESS OUT-PROTOCOL OUT-ADDRESS
//
// The environment of the active path, as a shared object: it adds one to the first byte of a payload and sends it on. The last four
// bytes stay as they are, so that the sink knows the packet.
#include "nodeos.h"
#include <stdio.h>
#include <stdlib.h>

static void deliver(an_InChan_t in, an_PacketBuffer_t packet, const struct an_Ends *ends, void *out)
{
	size_t length;
	unsigned char *bytes = an_pktbufData(packet);
	(void)in, (void)ends;
	if (bytes && !an_pktbufLength(packet, &length)) {
		if (length > 4)
			bytes[0]++;
		if (!an_outchanSend(out, 0, packet))
			return;
	}
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
		return 2;
	struct an_NodeSpec spec = { .title = "active", .cred = an_credCreate(0, argv[1]), .busypoll_us = (unsigned)atoi(argv[2]) };
	an_Node_t node = an_nodeConnect(0, &spec);
	if (!node)
		return failed("connect");
	an_Domain_t domain = an_domainSelf(node);
	an_OutChan_t out = an_outchanCreate(0, domain, argv[5], argv[6], 0);
	if (!out)
		return failed(argv[6]);
	struct an_NetSpec net = { .npbufs = 512 };
	if (!an_inchanCreate(0, domain, 0, argv[3], argv[4], &net, deliver, out))
		return failed(argv[4]);
	an_domainWait(domain);
	return an_nodeDisconnect(node);
}
