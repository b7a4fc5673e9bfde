// rtt udp GATEWAY_IP:PORT      or      rtt packet NETNS_FILE INTERFACE MAC
//
// Asks one question after the other and times the answers. Whatever comes back after a question is its answer; what came too late for the
// one before is thrown away. On an interface, answers are IPv4 frames, and whoever asks by ARP for any address is told MAC. Prints "ready",
// over UDP with its own port. Commands, a line each:
//   load HEX         the question                                  → ok
//   tell HEX         something that is not answered, sent once     → ok
//   ping COUNT       so many questions                             → ping COUNT LOST MEDIAN_NS ANSWER_HEX
#include "frame.h"
#include <netinet/in.h>
#include <poll.h>

enum { LINE = 2 * ROOM + 64, COUNT_MAX = 1 << 16, WAIT_MS = 100 };

static int fd, is_packet;
static unsigned char mac[ETH_ALEN], question[ROOM], answer[ROOM];
static unsigned length, answered;
static uint64_t times[COUNT_MAX];

static void open_udp(char *text)
{
	struct sockaddr_in own = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) }, to = own;
	socklen_t size = sizeof own;
	char *colon = strrchr(text, ':');
	if (!colon)
		die(text);
	to.sin_port = htons((uint16_t)atoi(colon + 1));
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&own, size) || getsockname(fd, (struct sockaddr *)&own, &size) ||
	    connect(fd, (struct sockaddr *)&to, sizeof to))
		die("rtt: udp socket");
	printf("ready %u\n", ntohs(own.sin_port));
}

// Takes what is there. Returns whether it is an answer.
static int take(void)
{
	unsigned char room[ROOM];
	ssize_t n = recv(fd, room, sizeof room, MSG_DONTWAIT);
	if (n <= 0)
		return 0;
	if (is_packet && (n < 34 || room[12] != 8 || room[13] != 0)) {
		answer_arp(fd, mac, room, n);
		return 0;
	}
	memcpy(answer, room, (size_t)n);
	answered = (unsigned)n;
	return 1;
}

static int await(void)
{
	uint64_t limit = clock_ns(CLOCK_MONOTONIC) + WAIT_MS * 1000000ull;
	do {
		struct pollfd wait = { .fd = fd, .events = POLLIN };
		poll(&wait, 1, WAIT_MS);
		if (take())
			return 1;
	} while (clock_ns(CLOCK_MONOTONIC) < limit);
	return 0;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

static void ping(unsigned count)
{
	unsigned done = 0, lost = 0;
	for (unsigned i = 0; i < count && lost < 8; i++) {
		for (struct pollfd late = { .fd = fd, .events = POLLIN }; poll(&late, 1, 0) > 0 && late.revents & POLLIN;)
			take();
		uint64_t began = clock_ns(CLOCK_MONOTONIC);
		if (send(fd, question, length, 0) == (ssize_t)length && await())
			times[done++] = clock_ns(CLOCK_MONOTONIC) - began;
		else
			lost++;
	}
	errno = 0;
	qsort(times, done, sizeof *times, by_size);
	printf("ping %u %u %llu ", count, lost, done ? (unsigned long long)times[done / 2] : 0);
	for (unsigned i = 0; done && i < answered; i++)
		printf("%02x", answer[i]);
	putchar('\n');
}

int main(int argc, char **argv)
{
	static char line[LINE], hex[LINE];
	static unsigned char once[ROOM];
	unsigned count;
	setvbuf(stdout, 0, _IOLBF, 0);
	if (argc == 3 && !strcmp(argv[1], "udp")) {
		open_udp(argv[2]);
	} else if (argc == 5 && !strcmp(argv[1], "packet")) {
		is_packet = 1;
		fd = packet_socket_in(argv[2], argv[3], ETH_P_ALL);
		parse_mac(argv[4], mac);
		puts("ready");
	} else {
		die("rtt udp GATEWAY | rtt packet NETNS INTERFACE MAC");
	}
	while (fgets(line, sizeof line, stdin)) {
		if (sscanf(line, "load %4159s", hex) == 1) {
			length = read_hex(hex, question, ROOM);
			puts("ok");
		} else if (sscanf(line, "tell %4159s", hex) == 1) {
			unsigned n = read_hex(hex, once, ROOM);
			puts(send(fd, once, n, 0) == (ssize_t)n ? "ok" : "not sent");
		} else if (length && sscanf(line, "ping %u", &count) == 1 && count <= COUNT_MAX) {
			ping(count);
		} else {
			puts("what?");
		}
	}
}
