// What the forwarders of frames share: a next hop's addresses, and one hop of IPv4.
#ifndef ANODE_BENCH_FRAME_H
#define ANODE_BENCH_FRAME_H
#include "bench.h"
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <netinet/ip.h>

static inline void parse_mac(const char *text, unsigned char *mac)
{
	if (sscanf(text, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", mac, mac + 1, mac + 2, mac + 3, mac + 4, mac + 5) != 6)
		die(text);
}

// Returns 1 if the frame was made ready to leave.
static inline int forward(unsigned char *frame, unsigned length, const unsigned char *macs)
{
	struct iphdr *ip = (struct iphdr *)(frame + ETH_HLEN);
	if (length < ETH_HLEN + sizeof *ip || frame[12] != 0x08 || frame[13] != 0x00 || ip->ttl < 2)
		return 0;
	uint32_t sum = (uint32_t)ip->check + htons(0x0100);
	ip->check = (uint16_t)(sum + (sum >= 0xffff));
	ip->ttl--;
	memcpy(frame, macs, 2 * ETH_ALEN);
	return 1;
}

#endif
