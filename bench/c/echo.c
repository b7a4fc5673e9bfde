// echo udp LISTEN_IP:PORT      or      echo packet INTERFACE
//
// The plain echo: a datagram goes back to whom it came from; of an IPv4 frame with UDP in it, addresses and ports change places. One at
// a time by blocking calls, as a server does that answers isolated packets.
#include "frame.h"
#include <netinet/in.h>

static void swap(unsigned char *a, unsigned char *b, size_t size)
{
	unsigned char kept[16];
	memcpy(kept, a, size);
	memcpy(a, b, size);
	memcpy(b, kept, size);
}

static void echo_udp(char *text)
{
	static unsigned char room[ROOM];
	struct sockaddr_in at = { .sin_family = AF_INET }, from;
	char *colon = strrchr(text, ':');
	if (!colon)
		die(text);
	*colon = 0;
	at.sin_port = htons((uint16_t)atoi(colon + 1));
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || inet_pton(AF_INET, text, &at.sin_addr) != 1 || bind(fd, (struct sockaddr *)&at, sizeof at))
		die("echo: bind");
	for (;;) {
		socklen_t size = sizeof from;
		ssize_t n = recvfrom(fd, room, sizeof room, 0, (struct sockaddr *)&from, &size);
		if (n > 0 && sendto(fd, room, (size_t)n, 0, (struct sockaddr *)&from, size) < 0)
			errno = 0; // whoever asked is gone
	}
}

static void echo_packet(const char *interface)
{
	static unsigned char f[ROOM];
	enum { SOURCE = ETH_HLEN + 12, PORTS = ETH_HLEN + 20, SHORTEST = PORTS + 8 };
	int fd = packet_socket(interface, ETH_P_IP);
	for (;;) {
		ssize_t n = recv(fd, f, sizeof f, 0);
		if (n < SHORTEST || f[23] != 17)
			continue;
		swap(f, f + ETH_ALEN, ETH_ALEN);
		swap(f + SOURCE, f + SOURCE + 4, 4);
		swap(f + PORTS, f + PORTS + 2, 2);
		if (send(fd, f, (size_t)n, 0) < 0)
			errno = 0; // whoever asked will see a loss
	}
}

int main(int argc, char **argv)
{
	if (argc != 3)
		die("echo udp LISTEN | echo packet INTERFACE");
	if (!strcmp(argv[1], "udp"))
		echo_udp(argv[2]);
	else
		echo_packet(argv[2]);
}
