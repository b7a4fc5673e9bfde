// xdpgw IN_INTERFACE OUT_INTERFACE OUT_SOURCE_MAC OUT_DESTINATION_MAC
//
// The plain AF_XDP forwarder: IPv4 frames that arrive on queue 0 of IN leave through OUT with the hop limit lowered (RFC 1624 checksum
// update) and the given MAC addresses. Two sockets share one memory, so a frame leaves from where it was received into and is never copied
// in user space; the kernel copies it in both directions (copy mode). Batches of 64, wake-ups only where the kernel asks for
// them. One direction, one route, no neighbour table: less than any real node must do.
#include "bpf.h"
#include "frame.h"
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_xdp.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <poll.h>
#include <stddef.h>
#include <sys/mman.h>

#ifndef XDP_MAX_TX_SKB_BUDGET
#define XDP_MAX_TX_SKB_BUDGET 9
#endif

enum { FRAMES = 4096, RING = 4096, CHUNK = 2048 };

struct ring {
	uint32_t *producer, *consumer, *flags, at;
	void *entries;
};

static char *memory;

static void option(int fd, int name, const void *value, socklen_t length, const char *what)
{
	if (setsockopt(fd, SOL_XDP, name, value, length))
		die(what);
}

static struct ring ring(int fd, int name, const struct xdp_ring_offset *at, off_t page, size_t entry)
{
	int size = RING;
	option(fd, name, &size, sizeof size, "xdpgw: ring");
	char *base = mmap(0, at->desc + RING * entry, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, page);
	if (base == MAP_FAILED)
		die("xdpgw: mmap");
	return (struct ring){ (void *)(base + at->producer), (void *)(base + at->consumer), (void *)(base + at->flags), 0,
			      base + at->desc };
}

struct port {
	int fd;
	struct ring fill, completion, rx, tx;
};

static struct port open_port(const char *interface, int first)
{
	struct port port = { .fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0) };
	struct xdp_umem_reg umem = { .addr = (uintptr_t)memory, .len = FRAMES * CHUNK, .chunk_size = CHUNK };
	struct xdp_mmap_offsets at;
	socklen_t length = sizeof at;
	int bytes = 8 << 20, budget = 256;

	if (port.fd < 0)
		die("xdpgw: socket");
	if (first < 0)
		option(port.fd, XDP_UMEM_REG, &umem, sizeof umem, "xdpgw: memory");
	if (getsockopt(port.fd, SOL_XDP, XDP_MMAP_OFFSETS, &at, &length))
		die("xdpgw: offsets");
	port.fill = ring(port.fd, XDP_UMEM_FILL_RING, &at.fr, XDP_UMEM_PGOFF_FILL_RING, 8);
	port.completion = ring(port.fd, XDP_UMEM_COMPLETION_RING, &at.cr, XDP_UMEM_PGOFF_COMPLETION_RING, 8);
	port.rx = ring(port.fd, XDP_RX_RING, &at.rx, XDP_PGOFF_RX_RING, sizeof(struct xdp_desc));
	port.tx = ring(port.fd, XDP_TX_RING, &at.tx, XDP_PGOFF_TX_RING, sizeof(struct xdp_desc));
	setsockopt(port.fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes);
	setsockopt(port.fd, SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &budget, sizeof budget);
	struct sockaddr_xdp to = { .sxdp_family = AF_XDP, .sxdp_ifindex = if_nametoindex(interface),
				   .sxdp_flags = first < 0 ? XDP_COPY | XDP_USE_NEED_WAKEUP : XDP_SHARED_UMEM,
				   .sxdp_shared_umem_fd = first < 0 ? 0 : (uint32_t)first };
	// The queue is free a moment after the sockets of the process before have gone.
	for (int tries = 0; bind(port.fd, (struct sockaddr *)&to, sizeof to); tries++) {
		if (errno != EBUSY || tries == 800)
			die("xdpgw: bind");
		usleep(10000);
	}
	return port;
}

// Takes what arrives on queue 0 of an interface to a socket.
static void steer(const char *interface, int socket)
{
	int map = bpf_map(BPF_MAP_TYPE_XSKMAP, sizeof(uint32_t), 1);
	struct bpf_insn code[] = {
		{ .code = BPF_LDX | BPF_W | BPF_MEM, .dst_reg = 2, .src_reg = 1, .off = offsetof(struct xdp_md, rx_queue_index) },
		{ .code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = 1, .src_reg = BPF_PSEUDO_MAP_FD, .imm = map },
		{ 0 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 3, .imm = XDP_PASS },
		{ .code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_redirect_map },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr attr = { .prog_type = BPF_PROG_TYPE_XDP, .expected_attach_type = BPF_XDP, .insns = (uintptr_t)code,
				.license = (uintptr_t) "GPL", .insn_cnt = sizeof code / sizeof *code };
	int program = bpf_call(BPF_PROG_LOAD, &attr);
	if (program < 0)
		die("xdpgw: program");
	bpf_put(map, 0, &socket);
	bpf_attach(program, if_nametoindex(interface));
}

#define ACQUIRE(word) __atomic_load_n(word, __ATOMIC_ACQUIRE)
#define RELEASE(word, value) __atomic_store_n(word, value, __ATOMIC_RELEASE)

static void give(struct ring *fill, uint64_t address)
{
	((uint64_t *)fill->entries)[fill->at++ & (RING - 1)] = address & ~(uint64_t)(CHUNK - 1);
}

int main(int argc, char **argv)
{
	if (argc != 5)
		die("xdpgw IN OUT SOURCE_MAC DESTINATION_MAC");
	unsigned char macs[2 * ETH_ALEN];
	parse_mac(argv[4], macs);
	parse_mac(argv[3], macs + ETH_ALEN);
	memory = mmap(0, FRAMES * CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		die("xdpgw: memory");
	struct port in = open_port(argv[1], -1), out = open_port(argv[2], in.fd);
	for (uint64_t i = 0; i < FRAMES; i++)
		give(&in.fill, i * CHUNK);
	RELEASE(in.fill.producer, in.fill.at);
	steer(argv[1], in.fd);

	struct pollfd wait = { .fd = in.fd, .events = POLLIN };
	for (;;) {
		uint32_t there = ACQUIRE(in.rx.producer), n = there - in.rx.at;
		if (!n) {
			if (poll(&wait, 1, -1) < 0 && errno != EINTR)
				die("xdpgw: poll");
			continue;
		}
		if (n > BATCH)
			n = BATCH;
		for (uint32_t i = 0; i < n; i++) {
			struct xdp_desc *frame = (struct xdp_desc *)in.rx.entries + (in.rx.at++ & (RING - 1));
			if (forward((unsigned char *)memory + frame->addr, frame->len, macs))
				((struct xdp_desc *)out.tx.entries)[out.tx.at++ & (RING - 1)] = *frame;
			else
				give(&in.fill, frame->addr);
		}
		RELEASE(in.rx.consumer, in.rx.at);
		RELEASE(out.tx.producer, out.tx.at);
		if (*out.tx.flags & XDP_RING_NEED_WAKEUP)
			while (sendto(out.fd, 0, 0, MSG_DONTWAIT, 0, 0) < 0 && ACQUIRE(out.tx.consumer) != out.tx.at)
				if (errno != EAGAIN && errno != EBUSY && errno != ENOBUFS)
					break; // those frames are late or lost; the generator will see it
		uint32_t done = ACQUIRE(out.completion.producer);
		for (; out.completion.at != done; out.completion.at++)
			give(&in.fill, ((uint64_t *)out.completion.entries)[out.completion.at & (RING - 1)]);
		RELEASE(out.completion.consumer, out.completion.at);
		RELEASE(in.fill.producer, in.fill.at);
	}
}
