// The common part of programs that handle frames: sockets for them, ARP, a next hop's addresses, and one hop of IPv4.
#ifndef ANODE_BENCH_FRAME_H
#define ANODE_BENCH_FRAME_H
#include "bench.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <sched.h>

static inline void parse_mac(const char *text, unsigned char *mac)
{
	if (sscanf(text, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", mac, mac + 1, mac + 2, mac + 3, mac + 4, mac + 5) != 6)
		die(text);
}

// Answers a question by ARP, for whatever address, with `mac`; lets other frames alone.
static inline void answer_arp(int fd, const unsigned char *mac, unsigned char *f, ssize_t n)
{
	enum { OPERATION = 21, SENDER = 22, TARGET = 32, HALF = ETH_ALEN + 4, ARP = 42 };
	unsigned char own[HALF];
	if (n < ARP || f[12] != 0x08 || f[13] != 0x06 || f[OPERATION] != 1)
		return;
	memcpy(own, mac, ETH_ALEN);
	memcpy(own + ETH_ALEN, f + TARGET + ETH_ALEN, 4);
	memcpy(f + TARGET, f + SENDER, HALF);
	memcpy(f + SENDER, own, HALF);
	memcpy(f, f + TARGET, ETH_ALEN);
	memcpy(f + ETH_ALEN, mac, ETH_ALEN);
	f[OPERATION] = 2;
	if (send(fd, f, ARP, 0) < 0)
		errno = 0; // it will ask again
}

// Reads bytes in hexadecimal; returns how many.
static inline unsigned read_hex(const char *hex, unsigned char *to, unsigned room)
{
	unsigned byte, n;
	for (n = 0; n < room && sscanf(hex + 2 * n, "%2x", &byte) == 1; n++)
		to[n] = (unsigned char)byte;
	return n;
}

// A raw socket that sees what comes in by an interface, of this protocol or, if it is 0, nothing.
static inline int packet_socket(const char *interface, int protocol)
{
	struct sockaddr_ll at = { .sll_family = AF_PACKET, .sll_protocol = htons((uint16_t)protocol),
				  .sll_ifindex = (int)if_nametoindex(interface) };
	int one = 1, fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (fd < 0 || !at.sll_ifindex || bind(fd, (struct sockaddr *)&at, sizeof at))
		die(interface);
	setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one);
	deep_buffer(fd);
	return fd;
}

// The same in a namespace, in which the thread stays.
static inline int packet_socket_in(const char *netns, const char *interface, int protocol)
{
	int ns = open(netns, O_RDONLY | O_CLOEXEC);
	if (ns < 0 || setns(ns, CLONE_NEWNET))
		die(netns);
	close(ns);
	return packet_socket(interface, protocol);
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
