// flowee ROLE COUNT IN-PROTOCOL SOURCE DESTINATION PORT OUT-PROTOCOL OUT-ADDRESS
//
// A-flows that send on what comes for them, as a shared object. Number n has packets from SOURCE, port PORT + n % 50,000, to
// DESTINATION, port PORT + n / 50,000, as the generator makes them. Says "all a-flows are there".
#include "nodeos.h"
#include <stdio.h>
#include <stdlib.h>

enum { PORTS_EACH = 50000 };

static void deliver(an_InChan_t in, an_PacketBuffer_t packet, const struct an_Ends *ends, void *out)
{
	(void)in;
	if (an_outchanSend(out, &ends->destination, packet))
		an_pktbufFree(packet);
}

static int failed(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, an_strerror(an_error()));
	return 1;
}

int main(int argc, char **argv)
{
	if (argc != 9)
		return 2;
	struct an_NodeSpec spec = { .title = "a-flows", .cred = an_credCreate(0, argv[1]) };
	an_Node_t node = an_nodeConnect(0, &spec);
	if (!node)
		return failed("connect");
	an_Domain_t top = an_domainSelf(node);
	int count = atoi(argv[2]), port = atoi(argv[6]);
	for (int n = 0; n < count; n++) {
		char ends[128];
		struct an_FlowSpec flow_spec = { .title = "a-flow", .maxthreads = 1 };
		snprintf(ends, sizeof ends, "%s:%d -> %s:%d", argv[4], port + n % PORTS_EACH, argv[5], port + n / PORTS_EACH);
		an_Domain_t flow = an_flowCreate(0, top, &flow_spec);
		an_OutChan_t out = flow ? an_outchanCreate(0, flow, argv[7], argv[8], 0) : 0;
		if (!out || !an_inchanCreate(0, flow, 0, argv[3], ends, 0, deliver, out))
			return failed(ends);
	}
	fprintf(stderr, "all a-flows are there\n");
	an_domainWait(top);
	return an_nodeDisconnect(node);
}
