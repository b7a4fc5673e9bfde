// pace udp GATEWAY_IP:PORT      or      pace packet NETNS_FILE INTERFACE NETNS_FILE INTERFACE MAC
//
// Generator at a rate that nobody slows down, and a sink that counts without taking: a socket filter drops datagrams of the right length,
// which the kernel counts; of frames of that length a socket counts those it has no room for too. So neither the number nor the order of
// arrivals costs the generator anything. On the second interface, whoever asks by ARP for any address is told MAC.
// Prints "ready", over UDP with the ports it sends from and expects packets at. Commands, a line each:
//   load HEX              the packet                                    → ok
//   run PID RATE COUNT    COUNT packets at RATE a second, in batches    → run SENT ARRIVED SEND_NS ALL_NS GATEWAY_CPU_NS
// SEND_NS is the time of sending; ALL_NS is that until the last one arrived. PID 0 has no CPU clock.
#include "frame.h"
#include <linux/filter.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/udp.h>

enum { LINE = 2 * ROOM + 64, CHUNK = 32, QUIET_NS = 150000000, NAP_NS = 100000 };

static int out_fd, sink_fd, arp_fd = -1;
static unsigned char packets[CHUNK * ROOM], mac[ETH_ALEN];
static unsigned length;
static uint64_t counted;

static int open_udp(uint16_t *port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof at;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, size) || getsockname(fd, (struct sockaddr *)&at, &size))
		die("pace: udp socket");
	*port = ntohs(at.sin_port);
	return fd;
}

// Copies of the packet stand one behind the other. Of what is as long, the sink's socket counts every one.
static void load(const char *hex)
{
	int size = (int)(length = read_hex(hex, packets, ROOM));
	for (unsigned i = 1; i < CHUNK; i++)
		memcpy(packets + i * length, packets, length);
	if (arp_fd < 0 && setsockopt(out_fd, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof size))
		die("pace: UDP_SEGMENT");
	unsigned headers = arp_fd < 0 ? 8 : 0, counts = arp_fd < 0 ? 0 : 1;
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, length + headers, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, counts),
		BPF_STMT(BPF_RET | BPF_K, arp_fd < 0 ? 0xffff : 0),
	};
	struct sock_fprog filter = { sizeof code / sizeof *code, code };
	if (setsockopt(sink_fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter))
		die("pace: filter");
}

static uint64_t arrivals(void)
{
	if (arp_fd >= 0) {
		struct tpacket_stats stats;
		socklen_t size = sizeof stats;
		if (getsockopt(sink_fd, SOL_PACKET, PACKET_STATISTICS, &stats, &size))
			die("pace: statistics");
		return counted += stats.tp_packets;
	}
	uint32_t memory[SK_MEMINFO_VARS];
	socklen_t size = sizeof memory;
	if (getsockopt(sink_fd, SOL_SOCKET, SO_MEMINFO, memory, &size))
		die("pace: memory info");
	counted += (uint32_t)(memory[SK_MEMINFO_DROPS] - (uint32_t)counted);
	return counted;
}

static void serve_arp(void)
{
	unsigned char frame[ROOM];
	if (arp_fd >= 0)
		answer_arp(arp_fd, mac, frame, recv(arp_fd, frame, sizeof frame, MSG_DONTWAIT));
	errno = 0;
}

static void wait_until(uint64_t due)
{
	for (uint64_t now; (now = clock_ns(CLOCK_MONOTONIC)) < due;)
		if (due - now > NAP_NS) {
			struct timespec nap = { .tv_nsec = (long)(due - now - NAP_NS / 2) % 1000000000 };
			nanosleep(&nap, 0);
		}
}

// Sends; returns how many the socket took.
static unsigned send_all(unsigned rate, unsigned count)
{
	static struct iovec iov;
	static struct mmsghdr out[CHUNK];
	unsigned sent = 0, begun = 0;
	iov = (struct iovec){ packets, length };
	for (int i = 0; i < CHUNK; i++)
		out[i].msg_hdr = (struct msghdr){ .msg_iov = &iov, .msg_iovlen = 1 };
	for (uint64_t start = clock_ns(CLOCK_MONOTONIC); begun < count;) {
		unsigned some = count - begun < CHUNK ? count - begun : CHUNK;
		wait_until(start + begun * 1000000000ull / rate);
		if (arp_fd < 0) {
			sent += send(out_fd, packets, some * length, 0) == (ssize_t)(some * length) ? some : 0;
		} else {
			int k = sendmmsg(out_fd, out, some, 0);
			sent += k > 0 ? (unsigned)k : 0;
		}
		begun += some;
		if (begun % (64 * CHUNK) == 0)
			serve_arp();
	}
	return sent;
}

static void run(pid_t pid, unsigned rate, unsigned count)
{
	clockid_t clock = CLOCK_PROCESS_CPUTIME_ID;
	if (pid && (errno = clock_getcpuclockid(pid, &clock)))
		die("pace: the gateway is gone");
	uint64_t before = arrivals(), cpu = clock_ns(clock), start = clock_ns(CLOCK_MONOTONIC), last, now;
	unsigned sent = send_all(rate, count);
	uint64_t sending = (last = clock_ns(CLOCK_MONOTONIC)) - start, got = arrivals();
	// A gateway that the system keeps from its CPU for a while has not lost what waits for it.
	while (got - before < sent && (now = clock_ns(CLOCK_MONOTONIC)) - last < QUIET_NS) {
		struct timespec nap = { .tv_nsec = NAP_NS };
		nanosleep(&nap, 0);
		serve_arp();
		uint64_t more = arrivals();
		if (more != got)
			got = more, last = now;
	}
	printf("run %u %llu %llu %llu %llu\n", sent, (unsigned long long)(got - before), (unsigned long long)sending,
	       (unsigned long long)(last - start), pid ? (unsigned long long)(clock_ns(clock) - cpu) : 0);
}

int main(int argc, char **argv)
{
	static char line[LINE], hex[LINE];
	int small = 4096;
	setvbuf(stdout, 0, _IOLBF, 0);
	if (argc == 3 && !strcmp(argv[1], "udp")) {
		uint16_t from, sink;
		char *colon = strrchr(argv[2], ':');
		if (!colon)
			die(argv[2]);
		*colon = 0;
		struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(colon + 1)) };
		out_fd = open_udp(&from);
		if (inet_pton(AF_INET, argv[2], &to.sin_addr) != 1 || connect(out_fd, (struct sockaddr *)&to, sizeof to))
			die(argv[2]);
		sink_fd = open_udp(&sink);
		printf("ready %u %u\n", from, sink);
	} else if (argc == 7 && !strcmp(argv[1], "packet")) {
		out_fd = packet_socket_in(argv[2], argv[3], 0);
		sink_fd = packet_socket_in(argv[4], argv[5], ETH_P_IP);
		arp_fd = packet_socket_in(argv[4], argv[5], ETH_P_ARP);
		parse_mac(argv[6], mac);
		puts("ready");
	} else {
		die("pace udp GATEWAY | pace packet NETNS INTERFACE NETNS INTERFACE MAC");
	}
	setsockopt(sink_fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
	while (fgets(line, sizeof line, stdin)) {
		unsigned a, b, c;
		if (sscanf(line, "load %4159s", hex) == 1) {
			load(hex);
			puts("ok");
		} else if (length && sscanf(line, "run %u %u %u", &a, &b, &c) == 3 && b && c) {
			run((pid_t)a, b, c);
		} else {
			puts("what?");
		}
	}
}
