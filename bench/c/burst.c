// burst udp GATEWAY_IP:PORT HOPS      or      burst packet NETNS_FILE INTERFACE NETNS_FILE INTERFACE MAC
//
// Generator and sink in one thread, hence a closed loop: burst k+1 leaves only when burst k has arrived whole, or
// its time-out was counted as a loss. So no queue ever overflows and no gateway is flooded.
//
//   udp     datagrams leave from 127.0.0.1:A to the gateway and are expected at 127.0.0.1:B; with two next hops, at B
//           and C in turn; prints "ready A B" or "ready A B C"
//   packet  whole frames leave through the first interface and are expected on the second; prints "ready".
//           Whoever asks there by ARP for any address is told MAC
//
// Commands, a line each:
//   load BURST HEX               packets a burst, bytes of a packet (datagram payload or frame)   → ok
//   also HEX                     one more packet of the same length, to be sent in turn with the others  → ok
//   flows N                      frames of UDP are of N flows in turn: number n has the source port P + n % 50,000 and the
//                                port P + n / 50,000, where P is that of the frame as it was loaded   → ok
//   warm WHOLE MS                bursts until WHOLE in a row arrived, at most MS                  → warm 0|1
//   pace PPS MS                  packets at a rate for so long  → pace SENT ARRIVED NS_TO_SEND_THEM
//   run PID BURSTS TIMEOUT_MS    measures against the CPU clock of the gateway's process
//        → run SENT ARRIVED LOST_BURSTS GATEWAY_CPU_NS OWN_CPU_NS WALL_NS SAMPLE_HEX
// The last four bytes of each packet are overwritten by burst number and index: a late or doubled packet is never
// taken for another. SAMPLE is the last packet that arrived, so that the caller can check what was done to it.
#include "frame.h"
#include <netinet/in.h>
#include <poll.h>

enum { BURST_MAX = 1024, PACKETS_MAX = 64, LINE = 2 * ROOM + 64 };

enum { HOPS_MAX = 2 };

// Where the ports of a datagram stand in a frame without options, and how many source ports take turns.
enum { UDP_PORTS = 34, PORTS_EACH = 50000 };

static int out_fd, sink_fds[HOPS_MAX] = { -1, -1 }, hops = 1, arp_fd = -1;
static unsigned char mac[ETH_ALEN];
static struct sockaddr_in gateway;
static unsigned burst = 128, length, kinds, turn, flows, flow;
static uint16_t burst_number;
// Which next hop a packet of the burst is for.
static unsigned char towards[BURST_MAX];
static unsigned char kind[PACKETS_MAX][ROOM], packets[BURST_MAX][ROOM], arrived_room[BATCH][ROOM], sample[ROOM], seen[BURST_MAX];
static struct iovec out_iov[BURST_MAX], in_iov[BATCH];
static struct mmsghdr out[BURST_MAX], in[BATCH];

static int open_udp(uint16_t *port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof at;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, size) || getsockname(fd, (struct sockaddr *)&at, &size))
		die("burst: udp socket");
	deep_buffer(fd);
	*port = ntohs(at.sin_port);
	return fd;
}

static void load(const char *hex)
{
	length = read_hex(hex, kind[0], ROOM);
	kinds = 1;
	flows = 0;
	if (length < 4 || !burst || burst > BURST_MAX)
		die("burst: load");
	for (unsigned i = 0; i < burst; i++) {
		memcpy(packets[i], kind[0], length);
		out_iov[i] = (struct iovec){ packets[i], length };
		out[i].msg_hdr = (struct msghdr){ .msg_iov = &out_iov[i], .msg_iovlen = 1 };
		if (gateway.sin_port)
			out[i].msg_hdr.msg_name = &gateway, out[i].msg_hdr.msg_namelen = sizeof gateway;
	}
}

// The next flow's ports; datagrams have no checksum.
static void enter_flow(unsigned char *packet)
{
	unsigned first = kind[0][UDP_PORTS + 2] << 8 | kind[0][UDP_PORTS + 3];
	uint16_t ports[2] = { htons((uint16_t)(first + flow % PORTS_EACH)), htons((uint16_t)(first + flow / PORTS_EACH)) };
	memcpy(packet + UDP_PORTS, ports, sizeof ports);
	flow = flow + 1 < flows ? flow + 1 : 0;
}

static void stamp(void)
{
	burst_number++;
	for (unsigned i = 0; i < burst; i++) {
		towards[i] = (unsigned char)(turn % kinds % (unsigned)hops);
		if (kinds > 1)
			memcpy(packets[i], kind[turn++ % kinds], length);
		if (flows)
			enter_flow(packets[i]);
		uint32_t word = htonl((uint32_t)burst_number << 16 | i);
		memcpy(packets[i] + length - 4, &word, 4);
	}
	memset(seen, 0, burst);
}

// Takes what has arrived at a next hop and returns how many packets of this burst are new.
static unsigned take(int hop)
{
	unsigned fresh = 0;
	int n = recvmmsg(sink_fds[hop], in, BATCH, MSG_DONTWAIT, 0);
	for (int i = 0; i < n; i++) {
		uint32_t word;
		if (in[i].msg_len != length)
			continue;
		memcpy(&word, arrived_room[i] + length - 4, 4);
		word = ntohl(word);
		unsigned index = word & 0xffff;
		if (word >> 16 != burst_number || index >= burst || seen[index] || towards[index] != hop)
			continue;
		seen[index] = 1;
		fresh++;
		if (index == burst - 1)
			memcpy(sample, arrived_room[i], length);
	}
	return fresh;
}

// Stands for the next hop: tells whoever asks that every address is at `mac`.
static void serve_arp(void)
{
	unsigned char frame[ROOM];
	answer_arp(arp_fd, mac, frame, recv(arp_fd, frame, sizeof frame, MSG_DONTWAIT));
}

// One burst: returns how many of its packets arrived before the time-out.
static unsigned round_trip(int timeout_ms)
{
	unsigned arrived = 0;
	stamp();
	for (unsigned sent = 0; sent < burst;) {
		int k = sendmmsg(out_fd, out + sent, burst - sent, 0);
		if (k <= 0) { // nobody listens yet, or no buffer: this one is lost
			k = 1;
			errno = 0;
		}
		sent += (unsigned)k;
	}
	uint64_t end = clock_ns(CLOCK_MONOTONIC) + (uint64_t)timeout_ms * 1000000u;
	struct pollfd wait[] = { { .fd = arp_fd, .events = POLLIN }, { .fd = sink_fds[0], .events = POLLIN },
				 { .fd = sink_fds[1], .events = POLLIN } };
	while (arrived < burst) {
		unsigned fresh = 0;
		for (int i = 0; i < hops; i++)
			fresh += take(i);
		arrived += fresh;
		if (fresh)
			continue;
		uint64_t now = clock_ns(CLOCK_MONOTONIC);
		if (now >= end)
			break;
		poll(wait, 1 + (nfds_t)hops, (int)((end - now) / 1000000u) + 1);
		if (wait[0].revents)
			serve_arp();
	}
	return arrived;
}

static void warm(unsigned whole, unsigned ms)
{
	unsigned row = 0;
	for (uint64_t end = clock_ns(CLOCK_MONOTONIC) + ms * 1000000ull; row < whole;) {
		row = round_trip(20) == burst ? row + 1 : 0;
		if (clock_ns(CLOCK_MONOTONIC) > end)
			break;
	}
	printf("warm %d\n", row >= whole);
}

// Packets at a rate for so long, whatever becomes of them; then whatever is on its way has 40 ms.
static void pace(uint64_t pps, uint64_t ms)
{
	uint64_t sent = 0, arrived = 0, total = pps * ms / 1000, began = clock_ns(CLOCK_MONOTONIC), last, took = 0;
	last = began;
	for (;;) {
		uint64_t now = clock_ns(CLOCK_MONOTONIC);
		if (sent < total) {
			uint64_t due = (now - began) * pps / 1000000000u, most = burst < BATCH ? burst : BATCH;
			due = due > total ? total : due;
			if (due > sent) {
				unsigned group = (unsigned)(due - sent > most ? most : due - sent);
				int k = sendmmsg(out_fd, out, group, 0);
				errno = 0;
				sent += k > 0 ? (uint64_t)k : 1;
				took = clock_ns(CLOCK_MONOTONIC) - began;
				last = now;
			}
		}
		int n = recvmmsg(sink_fds[0], in, BATCH, MSG_DONTWAIT, 0);
		for (int i = 0; i < n; i++)
			arrived += in[i].msg_len == length;
		if (n > 0)
			last = now;
		else if (sent >= total && (arrived >= sent || now - last > 40000000u))
			break;
	}
	printf("pace %llu %llu %llu\n", (unsigned long long)sent, (unsigned long long)arrived, (unsigned long long)took);
}

static void run(pid_t pid, unsigned bursts, int timeout_ms)
{
	clockid_t gateway_clock;
	uint64_t sent = 0, arrived = 0, lost = 0;
	if ((errno = clock_getcpuclockid(pid, &gateway_clock)))
		die("burst: the gateway is gone");
	uint64_t gateway_ns = clock_ns(gateway_clock), own_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID),
		 wall_ns = clock_ns(CLOCK_MONOTONIC);
	for (unsigned i = 0; i < bursts && lost < 8; i++) {
		unsigned n = round_trip(timeout_ms);
		sent += burst;
		arrived += n;
		lost += n < burst;
	}
	wall_ns = clock_ns(CLOCK_MONOTONIC) - wall_ns;
	own_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - own_ns;
	gateway_ns = clock_ns(gateway_clock) - gateway_ns;
	printf("run %llu %llu %llu %llu %llu %llu ", (unsigned long long)sent, (unsigned long long)arrived,
	       (unsigned long long)lost, (unsigned long long)gateway_ns, (unsigned long long)own_ns,
	       (unsigned long long)wall_ns);
	for (unsigned i = 0; i < length; i++)
		printf("%02x", sample[i]);
	putchar('\n');
}

static void open_all(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "udp")) {
		uint16_t from, sink;
		char *colon = strrchr(argv[2], ':');
		if (!colon)
			die(argv[2]);
		*colon = 0;
		gateway = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(colon + 1)) };
		if (inet_pton(AF_INET, argv[2], &gateway.sin_addr) != 1)
			die(argv[2]);
		out_fd = open_udp(&from);
		hops = atoi(argv[3]);
		if (hops < 1 || hops > HOPS_MAX)
			die("burst: next hops");
		printf("ready %u", from);
		for (int i = 0; i < hops; i++) {
			sink_fds[i] = open_udp(&sink);
			printf(" %u", sink);
		}
		putchar('\n');
	} else if (argc == 7 && !strcmp(argv[1], "packet")) {
		out_fd = packet_socket_in(argv[2], argv[3], 0);
		sink_fds[0] = packet_socket_in(argv[4], argv[5], ETH_P_IP);
		arp_fd = packet_socket_in(argv[4], argv[5], ETH_P_ARP);
		if (sscanf(argv[6], "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", mac, mac + 1, mac + 2, mac + 3, mac + 4,
			   mac + 5) != 6)
			die(argv[6]);
		puts("ready");
	} else {
		die("burst udp GATEWAY HOPS | burst packet NETNS INTERFACE NETNS INTERFACE MAC");
	}
}

int main(int argc, char **argv)
{
	static char line[LINE], hex[LINE];
	setvbuf(stdout, 0, _IOLBF, 0);
	open_all(argc, argv);
	for (int i = 0; i < BATCH; i++) {
		in_iov[i] = (struct iovec){ arrived_room[i], ROOM };
		in[i].msg_hdr = (struct msghdr){ .msg_iov = &in_iov[i], .msg_iovlen = 1 };
	}
	while (fgets(line, sizeof line, stdin)) {
		unsigned a, b, c;
		if (sscanf(line, "load %u %4159s", &burst, hex) == 2) {
			load(hex);
			puts("ok");
		} else if (length && kinds < PACKETS_MAX && sscanf(line, "also %4159s", hex) == 1 &&
			   read_hex(hex, kind[kinds], ROOM) == length) {
			kinds++;
			puts("ok");
		} else if (length > UDP_PORTS + 8 && sscanf(line, "flows %u", &a) == 1) {
			flows = a;
			flow = 0;
			puts("ok");
		} else if (length && sscanf(line, "warm %u %u", &a, &b) == 2) {
			warm(a, b);
		} else if (length && sscanf(line, "pace %u %u", &a, &b) == 2) {
			pace(a, b);
		} else if (length && sscanf(line, "run %u %u %u", &a, &b, &c) == 3) {
			run((pid_t)a, b, (int)c);
		} else {
			puts("what?");
		}
	}
}
