// flood OBJECT NETNS_FILE INTERFACE NETNS_FILE INTERFACE MAC SOFTIRQ_PID xdp|stack
//
// Generator and sink of in-kernel paths. Frames are made by a test run with live frames on the first interface and sent out of it
// at once (XDP_TX); what comes in by the second is counted and dropped by an XDP program, or where the stack takes it in (tcx), and ARP is
// answered there with MAC. As long as the NAPI of all interfaces
// between is not threaded, all of it runs in this process on its CPU: generator, router, sink. SOFTIRQ_PID is the kernel's
// thread for softirqs of that CPU, whose time is added, or 0.
//
// Commands, a line each:
//   load HEX             the frame                                                    → ok
//   head HEX             the headers of one more, to be sent in turn with the others   → ok
//   watch PID CPU        puts a thread on a CPU, under SCHED_FIFO; from now on CPU_NS is that of the watched     → ok
//   run COUNT BATCH      sends so many, in batches; measures                          → run SENT ARRIVED CPU_NS WALL_NS SAMPLE_HEX
//   pace COUNT BURST NS  the same in bursts that begin at this distance, or later     → the same
// CPU_NS is of this process, until something is watched (PID 0 ends that). WALL_NS leaves out what the kernel does before and after a
// run. SAMPLE is the first frame that arrived; it is empty if none did.
#include "bpf.h"
#include "frame.h"
#include <net/if.h>
#include <sched.h>

enum { LINE = 2 * FRAME + 64, SETTLE_NS = 2000000, WATCHED = 64, UDP_DESTINATION = 36 };

static int generate, paced, maps[3];
static unsigned from_interface, length, heads, watched;
static uint16_t port;
static unsigned char frame[FRAME], mac[ETH_ALEN];
static pid_t softirq, threads[WATCHED];

static unsigned enter(const char *netns, const char *interface)
{
	int fd = open(netns, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET))
		die(netns);
	close(fd);
	return if_nametoindex(interface);
}

static void restart(unsigned burst, uint64_t interval_ns)
{
	struct generator g = { .count = heads, .burst = burst, .interval_ns = interval_ns };
	bpf_put(maps[0], 0, &g);
}

static void add_head(const unsigned char *bytes, unsigned length)
{
	struct head head = { { 0 } };
	if (heads == HEADS)
		die("flood: too many heads");
	memcpy(head.bytes, bytes, length < HEAD ? length : HEAD);
	bpf_put(maps[1], heads++, &head);
	restart(1, 0);
}

static void watch(pid_t thread, size_t cpu)
{
	struct sched_param lowest = { 1 };
	cpu_set_t cpus;
	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	if (!thread)
		watched = 0;
	else if (watched == WATCHED || sched_setaffinity(thread, sizeof cpus, &cpus) ||
		 sched_setscheduler(thread, SCHED_FIFO, &lowest))
		die("flood: watch");
	else
		threads[watched++] = thread;
}

// What a thread of the kernel has spent; nothing if it is gone.
static uint64_t spent(pid_t thread)
{
	clockid_t clock;
	struct timespec t;
	if (!thread || clock_getcpuclockid(thread, &clock) || clock_gettime(clock, &t))
		return 0;
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t cpu_ns(void)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < watched; i++)
		sum += spent(threads[i]);
	return watched ? sum : clock_ns(CLOCK_PROCESS_CPUTIME_ID) + spent(softirq);
}

static uint64_t arrived(struct sink *s)
{
	bpf_get(maps[2], 0, s);
	return s->arrived;
}

// The sink's count when it does not change any more: the kernel's thread may have the last packets.
static uint64_t settled(struct sink *s)
{
	struct timespec pause = { .tv_nsec = SETTLE_NS };
	uint64_t before, now = arrived(s);
	do {
		before = now;
		nanosleep(&pause, 0);
		now = arrived(s);
	} while (now != before);
	return now;
}

static void run(int program, unsigned count, unsigned batch)
{
	static struct sink s;
	struct xdp_md ctx = { .data_end = length, .ingress_ifindex = from_interface };
	union bpf_attr attr = { .test = { .prog_fd = (uint32_t)program, .data_in = (uintptr_t)frame, .data_size_in = length,
					  .ctx_in = (uintptr_t)&ctx, .ctx_size_in = sizeof ctx, .repeat = count,
					  .batch_size = batch, .flags = BPF_F_TEST_XDP_LIVE_FRAMES } };
	s = (struct sink){ .length = length, .armed = 1, .port = port };
	memcpy(s.mac, mac, sizeof mac);
	bpf_put(maps[2], 0, &s);
	uint64_t cpu = cpu_ns();
	if (bpf_call(BPF_PROG_TEST_RUN, &attr))
		die("flood: test run with live frames");
	uint64_t got = settled(&s);
	cpu = cpu_ns() - cpu;
	printf("run %u %llu %llu %llu ", count, (unsigned long long)got, (unsigned long long)cpu,
	       (unsigned long long)attr.test.duration * count);
	for (unsigned i = 0; got && i < length; i++)
		printf("%02x", s.sample[i]);
	putchar('\n');
}

static void attach_sink(const char *object, unsigned interface, int in_stack)
{
	enum { TCX_INGRESS = 46 };
	if (in_stack)
		bpf_attach_at(bpf_load_for(BPF_PROG_TYPE_SCHED_CLS, 0, object, "tcx/taken", maps), interface, TCX_INGRESS, 0);
	else
		bpf_attach(bpf_load(object, "sink", maps), interface);
}

int main(int argc, char **argv)
{
	static char line[LINE], hex[LINE];
	if (argc != 9)
		die("flood OBJECT NETNS INTERFACE NETNS INTERFACE MAC SOFTIRQ_PID xdp|stack");
	setvbuf(stdout, 0, _IOLBF, 0);
	maps[0] = bpf_map(BPF_MAP_TYPE_ARRAY, sizeof(struct generator), 1);
	maps[1] = bpf_map(BPF_MAP_TYPE_ARRAY, sizeof(struct head), HEADS);
	maps[2] = bpf_map(BPF_MAP_TYPE_ARRAY, sizeof(struct sink), 1);
	generate = bpf_load(argv[1], "generate", maps);
	paced = bpf_load(argv[1], "paced", maps);
	parse_mac(argv[6], mac);
	attach_sink(argv[1], enter(argv[4], argv[5]), !strcmp(argv[8], "stack"));
	from_interface = enter(argv[2], argv[3]);
	softirq = (pid_t)atoi(argv[7]);
	puts("ready");
	while (fgets(line, sizeof line, stdin)) {
		unsigned a, b, c;
		unsigned char bytes[HEAD];
		if (sscanf(line, "load %3071s", hex) == 1 && (length = read_hex(hex, frame, FRAME)) >= SHORT) {
			heads = 0;
			memcpy(&port, frame + UDP_DESTINATION, sizeof port);
			add_head(frame, length);
			puts("ok");
		} else if (length && sscanf(line, "head %3071s", hex) == 1 && read_hex(hex, bytes, HEAD) == HEAD) {
			add_head(bytes, HEAD);
			puts("ok");
		} else if (length && sscanf(line, "run %u %u", &a, &b) == 2) {
			run(generate, a, b);
		} else if (length && sscanf(line, "pace %u %u %u", &a, &b, &c) == 3 && b) {
			restart(b, c);
			run(paced, a, b);
		} else if (sscanf(line, "watch %u %u", &a, &b) == 2) {
			watch((pid_t)a, b);
			puts("ok");
		} else {
			puts("what?");
		}
	}
}
