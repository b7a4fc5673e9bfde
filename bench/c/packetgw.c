// packetgw IN_INTERFACE OUT_INTERFACE OUT_SOURCE_MAC OUT_DESTINATION_MAC [BURN_NS]
//
// The plain AF_PACKET forwarder: IPv4 frames that arrive on IN leave through OUT with the hop limit lowered
// (RFC 1624 checksum update) and the given MAC addresses. One direction, one route, no neighbour table: less than any
// real node must do. Frames come in by a ring that is shared with the kernel (PACKET_RX_RING, TPACKET_V2, which hands
// over single frames; the blocks of TPACKET_V3 would keep a packet that is alone until a timer ends), and leave from
// where they lie, by sendmmsg in batches of 64. A ring to send from, into which they would be copied, costs one to six per cent more.
// BURN_NS adds that many nanoseconds to each packet.
#include "frame.h"
#include <poll.h>
#include <sys/mman.h>

enum { FRAMES = 4096, BLOCK = 1 << 18 };

static struct tpacket2_hdr *at(char *ring, unsigned index)
{
	return (struct tpacket2_hdr *)(ring + (size_t)(index % FRAMES) * ROOM);
}

static char *open_ring(int fd)
{
	int version = TPACKET_V2;
	struct tpacket_req ring = { .tp_block_size = BLOCK, .tp_block_nr = FRAMES / (BLOCK / ROOM), .tp_frame_size = ROOM,
				    .tp_frame_nr = FRAMES };
	if (setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof version) ||
	    setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &ring, sizeof ring))
		die("packetgw: ring");
	char *memory = mmap(0, (size_t)FRAMES * ROOM, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (memory == MAP_FAILED)
		die("packetgw: mmap");
	return memory;
}

static int arrived(struct tpacket2_hdr *frame)
{
	return __atomic_load_n(&frame->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER;
}

int main(int argc, char **argv)
{
	if (argc < 5)
		die("packetgw IN OUT SOURCE_MAC DESTINATION_MAC [BURN_NS]");
	unsigned char macs[2 * ETH_ALEN];
	parse_mac(argv[4], macs);
	parse_mac(argv[3], macs + ETH_ALEN);
	uint64_t extra = argc > 5 ? strtoull(argv[5], 0, 10) : 0;
	int in_fd = packet_socket(argv[1], ETH_P_IP), out_fd = packet_socket(argv[2], 0);
	char *ring = open_ring(in_fd);

	static struct iovec iov[BATCH];
	static struct mmsghdr out[BATCH];
	for (int i = 0; i < BATCH; i++)
		out[i].msg_hdr = (struct msghdr){ .msg_iov = &iov[i], .msg_iovlen = 1 };
	struct pollfd wait = { .fd = in_fd, .events = POLLIN };
	for (unsigned next = 0;;) {
		unsigned n = 0, ready = 0;
		for (; n < BATCH; n++) {
			struct tpacket2_hdr *frame = at(ring, next + n);
			if (!arrived(frame))
				break;
			unsigned char *bytes = (unsigned char *)frame + frame->tp_mac;
			if (forward(bytes, frame->tp_snaplen, macs))
				iov[ready++] = (struct iovec){ bytes, frame->tp_snaplen };
		}
		if (!n) {
			if (poll(&wait, 1, -1) < 0 && errno != EINTR)
				die("packetgw: poll");
			continue;
		}
		burn(extra * n);
		for (unsigned sent = 0; sent < ready;) {
			int k = sendmmsg(out_fd, out + sent, ready - sent, 0);
			sent += k > 0 ? (unsigned)k : 1; // that frame is lost; the generator will count it
		}
		for (; n; n--, next++)
			__atomic_store_n(&at(ring, next)->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
	}
}
