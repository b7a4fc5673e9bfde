// witness NETNS_FILE INTERFACE MAC
//
// Sees capsules arrive at an interface, which nobody else takes, and answers ARP there with MAC. Prints "ready". The command, a line:
//   await MS     → came NS      when the next frame to UDP port 3322 came in, by the kernel's realtime clock; 0 if none came
#include "bench.h"
#include "frame.h"
#include <poll.h>

static int fd;
static unsigned char mac[ETH_ALEN];

// Takes one frame; the time it came if it is a capsule, else 0.
static uint64_t take(void)
{
	unsigned char frame[ROOM];
	char control[CMSG_SPACE(sizeof(struct timespec))];
	struct iovec part = { frame, sizeof frame };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
	ssize_t n = recvmsg(fd, &message, MSG_DONTWAIT);
	struct cmsghdr *head = n > 0 ? CMSG_FIRSTHDR(&message) : 0;
	struct timespec at;
	answer_arp(fd, mac, frame, n);
	if (n < 42 || !head || head->cmsg_type != SCM_TIMESTAMPNS || frame[12] != 0x08 || frame[13] || frame[23] != 17 ||
	    frame[36] != 3322 >> 8 || frame[37] != (3322 & 255))
		return 0;
	memcpy(&at, CMSG_DATA(head), sizeof at);
	return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

int main(int argc, char **argv)
{
	char line[64];
	unsigned ms;
	int one = 1;
	if (argc != 4)
		die("witness NETNS INTERFACE MAC");
	setvbuf(stdout, 0, _IOLBF, 0);
	fd = packet_socket_in(argv[1], argv[2], ETH_P_ALL);
	if (setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof one))
		die("witness: timestamps");
	parse_mac(argv[3], mac);
	puts("ready");
	while (fgets(line, sizeof line, stdin)) {
		if (sscanf(line, "await %u", &ms) != 1) {
			puts("what?");
			continue;
		}
		uint64_t came = 0, limit = clock_ns(CLOCK_MONOTONIC) + ms * 1000000ull;
		struct pollfd wait = { .fd = fd, .events = POLLIN };
		while (!(came = take()) && clock_ns(CLOCK_MONOTONIC) < limit)
			poll(&wait, 1, 1);
		printf("came %llu\n", (unsigned long long)came);
	}
}
