// udpgw LISTEN_IP:PORT NEXT_IP:PORT BURN_NS [OFFSET OTHER_IP:PORT]
//
// The plain UDP gateway: every datagram that arrives at LISTEN is sent to NEXT, unread, over one unconnected socket, as an overlay
// node would; or to OTHER, if the byte at OFFSET is even. Datagrams come in by recvmmsg in batches of 64. Those of a batch to one next hop
// leave as one message as long as they are equally long (UDP_SEGMENT), and all messages of a batch by one sendmmsg. UDP_GRO is not asked
// for: datagrams that are sent one by one are not put together on loopback. BURN_NS adds that many nanoseconds to each packet.
#include "bench.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/udp.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

enum { HOPS = 2, MESSAGE = 65507 };

// What leaves: datagrams of a batch that follow each other to one next hop, in one message.
struct run {
	struct iovec parts[BATCH];
	unsigned count;
	size_t each, bytes;
	union {
		char room[CMSG_SPACE(sizeof(uint16_t))];
		struct cmsghdr align;
	} control;
};

static struct sockaddr_in hops[HOPS];
static struct run runs[BATCH];
static struct mmsghdr out[BATCH];

static struct sockaddr_in parse(char *text)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	char *colon = strrchr(text, ':');
	if (!colon)
		die(text);
	*colon = 0;
	a.sin_port = htons((uint16_t)atoi(colon + 1));
	if (inet_pton(AF_INET, text, &a.sin_addr) != 1)
		die(text);
	return a;
}

// Puts a datagram to others for the same hop, whose last message is `open`; returns which message it is in.
static int add(int open, int *messages, int hop, char *bytes, size_t length)
{
	struct run *run = open < 0 ? 0 : &runs[open];
	if (!run || !run->each || length > run->each || run->bytes % run->each || run->bytes + length > MESSAGE) {
		open = (*messages)++;
		run = &runs[open];
		run->count = 0;
		run->bytes = 0;
		run->each = length;
		out[open].msg_hdr = (struct msghdr){ .msg_name = &hops[hop], .msg_namelen = sizeof hops[hop], .msg_iov = run->parts };
	}
	run->parts[run->count++] = (struct iovec){ bytes, length };
	run->bytes += length;
	return open;
}

static void finish(int message)
{
	struct run *run = &runs[message];
	struct msghdr *head = &out[message].msg_hdr;
	uint16_t each = (uint16_t)run->each;
	head->msg_iovlen = run->count;
	if (run->count == 1)
		return;
	head->msg_control = run->control.room;
	head->msg_controllen = sizeof run->control.room;
	struct cmsghdr *segment = CMSG_FIRSTHDR(head);
	*segment = (struct cmsghdr){ .cmsg_level = IPPROTO_UDP, .cmsg_type = UDP_SEGMENT, .cmsg_len = CMSG_LEN(sizeof each) };
	memcpy(CMSG_DATA(segment), &each, sizeof each);
}

int main(int argc, char **argv)
{
	if (argc != 4 && argc != 6)
		die("udpgw LISTEN NEXT BURN_NS [OFFSET OTHER]");
	struct sockaddr_in listen = parse(argv[1]);
	uint64_t extra = strtoull(argv[3], 0, 10);
	unsigned offset = argc == 6 ? (unsigned)atoi(argv[4]) : ROOM;
	hops[0] = parse(argv[2]);
	hops[1] = argc == 6 ? parse(argv[5]) : hops[0];
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&listen, sizeof listen))
		die("udpgw: bind");
	deep_buffer(fd);

	static char room[BATCH][ROOM];
	static struct iovec iov[BATCH];
	static struct mmsghdr in[BATCH];
	for (int i = 0; i < BATCH; i++) {
		iov[i] = (struct iovec){ room[i], ROOM };
		in[i].msg_hdr = (struct msghdr){ .msg_iov = &iov[i], .msg_iovlen = 1 };
	}
	for (;;) {
		int n = recvmmsg(fd, in, BATCH, MSG_WAITFORONE, 0), messages = 0, last[HOPS] = { -1, -1 };
		if (n < 0) {
			if (errno == EINTR || errno == ECONNREFUSED)
				continue;
			die("udpgw: recvmmsg");
		}
		for (int i = 0; i < n; i++) {
			int hop = offset < in[i].msg_len ? !(room[i][offset] & 1) : 0;
			last[hop] = add(last[hop], &messages, hop, room[i], in[i].msg_len);
		}
		for (int i = 0; i < messages; i++)
			finish(i);
		burn(extra * (uint64_t)n);
		for (int sent = 0, k; sent < messages; sent += k)
			if ((k = sendmmsg(fd, out + sent, (unsigned)(messages - sent), 0)) <= 0)
				k = 1; // that message is lost; the generator will count it
	}
}
