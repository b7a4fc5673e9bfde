// pingpong NETNS_FILE INTERFACE MAC NETNS_FILE INTERFACE MAC
//
// Both ends of a ping-pong in one thread: a frame leaves by the first interface, is awaited on the second, and then
// another leaves there and is awaited on the first. Whoever asks at an end by ARP for any address is told the end's
// MAC. Prints "ready". Commands, a line each:
//   load HEX HEX     the frames there and back, of one length        → ok
//   ping COUNT       so many, one after the other                    → ping COUNT LOST MEDIAN_NS SAMPLE_HEX
// MEDIAN_NS is the median time from there to back. SAMPLE is what came there last. A frame is one of ours by its length and its last four
// bytes, which are a number.
#include "bench.h"
#include "frame.h"
#include <poll.h>

enum { LINE = 4 * ROOM + 64, COUNT_MAX = 1 << 16, WAIT_MS = 20 };

static struct end {
	int fd;
	unsigned char mac[ETH_ALEN], frame[ROOM];
} ends[2];
static unsigned length;
static uint32_t number;
static unsigned char sample[ROOM];
static uint64_t times[COUNT_MAX];

static void open_end(struct end *end, char **argv)
{
	end->fd = packet_socket_in(argv[0], argv[1], ETH_P_ALL);
	parse_mac(argv[2], end->mac);
}

// Whether the frame of this number has come to an end; looks at the other too, where somebody may ask for an address.
static int await(struct end *end, unsigned char *into)
{
	uint64_t limit = clock_ns(CLOCK_MONOTONIC) + WAIT_MS * 1000000ull;
	for (;;) {
		ssize_t n = recv(end->fd, into, ROOM, MSG_DONTWAIT);
		if (n == (ssize_t)length && !memcmp(into + length - 4, &number, 4))
			return 1;
		if (n > 0) {
			answer_arp(end->fd, end->mac, into, n);
			continue;
		}
		if (clock_ns(CLOCK_MONOTONIC) > limit)
			return 0;
		struct pollfd wait[2] = { { .fd = ends[0].fd, .events = POLLIN }, { .fd = ends[1].fd, .events = POLLIN } };
		poll(wait, 2, 1);
		struct end *other = &ends[end == &ends[0]];
		if (wait[other - ends].revents && (n = recv(other->fd, into, ROOM, MSG_DONTWAIT)) > 0)
			answer_arp(other->fd, other->mac, into, n);
	}
}

static int cross(struct end *from, struct end *to, unsigned char *into)
{
	memcpy(from->frame + length - 4, &number, 4);
	return send(from->fd, from->frame, length, 0) == (ssize_t)length && await(to, into);
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

static void ping(unsigned count)
{
	unsigned char back[ROOM];
	unsigned done = 0, lost = 0;
	for (unsigned i = 0; i < count && lost < 8; i++) {
		uint64_t began = clock_ns(CLOCK_MONOTONIC);
		number++;
		if (cross(&ends[0], &ends[1], sample) && cross(&ends[1], &ends[0], back))
			times[done++] = clock_ns(CLOCK_MONOTONIC) - began;
		else
			lost++;
	}
	qsort(times, done, sizeof *times, by_size);
	printf("ping %u %u %llu ", count, lost, done ? (unsigned long long)times[done / 2] : 0);
	for (unsigned i = 0; done && i < length; i++)
		printf("%02x", sample[i]);
	putchar('\n');
}

int main(int argc, char **argv)
{
	static char line[LINE], there[LINE], back[LINE];
	unsigned count;
	if (argc != 7)
		die("pingpong NETNS INTERFACE MAC NETNS INTERFACE MAC");
	setvbuf(stdout, 0, _IOLBF, 0);
	open_end(&ends[0], argv + 1);
	open_end(&ends[1], argv + 4);
	puts("ready");
	while (fgets(line, sizeof line, stdin)) {
		if (sscanf(line, "load %4159s %4159s", there, back) == 2) {
			length = read_hex(there, ends[0].frame, ROOM);
			puts(length >= 4 && read_hex(back, ends[1].frame, ROOM) == length ? "ok" : "what?");
		} else if (length && sscanf(line, "ping %u", &count) == 1 && count <= COUNT_MAX) {
			ping(count);
		} else {
			puts("what?");
		}
	}
}
