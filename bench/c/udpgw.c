// udpgw LISTEN_IP:PORT NEXT_IP:PORT [BURN_NS]
//
// The plain UDP gateway: every datagram that arrives at LISTEN is sent to NEXT, unread, by recvmmsg and
// sendmmsg in batches of 64 over one unconnected socket, as an overlay node would. BURN_NS adds that many
// nanoseconds to each packet.
#include "bench.h"
#include <arpa/inet.h>
#include <netinet/in.h>

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

int main(int argc, char **argv)
{
	if (argc < 3)
		die("udpgw LISTEN NEXT [BURN_NS]");
	struct sockaddr_in listen = parse(argv[1]), next = parse(argv[2]);
	uint64_t extra = argc > 3 ? strtoull(argv[3], 0, 10) : 0;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&listen, sizeof listen))
		die("udpgw: bind");
	deep_buffer(fd);

	static char room[BATCH][ROOM];
	static struct iovec iov[BATCH];
	static struct mmsghdr in[BATCH], out[BATCH];
	for (int i = 0; i < BATCH; i++) {
		iov[i] = (struct iovec){ room[i], ROOM };
		in[i].msg_hdr = (struct msghdr){ .msg_iov = &iov[i], .msg_iovlen = 1 };
		out[i].msg_hdr = (struct msghdr){ .msg_name = &next, .msg_namelen = sizeof next,
						  .msg_iov = &iov[i], .msg_iovlen = 1 };
	}
	for (;;) {
		int n = recvmmsg(fd, in, BATCH, MSG_WAITFORONE, 0);
		if (n < 0) {
			if (errno == EINTR || errno == ECONNREFUSED)
				continue;
			die("udpgw: recvmmsg");
		}
		for (int i = 0; i < n; i++)
			iov[i].iov_len = in[i].msg_len;
		burn(extra * (uint64_t)n);
		for (int sent = 0, k; sent < n; sent += k)
			if ((k = sendmmsg(fd, out + sent, (unsigned)(n - sent), 0)) <= 0)
				k = 1; // that datagram is lost; the generator will count it
		for (int i = 0; i < n; i++)
			iov[i].iov_len = ROOM;
	}
}
