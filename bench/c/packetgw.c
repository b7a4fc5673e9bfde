// packetgw IN_INTERFACE OUT_INTERFACE OUT_SOURCE_MAC OUT_DESTINATION_MAC [BURN_NS]
//
// The plain AF_PACKET forwarder: IPv4 frames that arrive on IN leave through OUT with the hop limit lowered
// (RFC 1624 checksum update) and the given MAC addresses, by recvmmsg and sendmmsg in batches of 64 on
// SOCK_RAW sockets. One direction, one route, no neighbour table: less than any real node must do.
// PACKET_QDISC_BYPASS was tried and changes nothing on veth.
// BURN_NS adds that many nanoseconds to each packet.
#include "frame.h"

int main(int argc, char **argv)
{
	if (argc < 5)
		die("packetgw IN OUT SOURCE_MAC DESTINATION_MAC [BURN_NS]");
	unsigned char macs[2 * ETH_ALEN];
	parse_mac(argv[4], macs);
	parse_mac(argv[3], macs + ETH_ALEN);
	uint64_t extra = argc > 5 ? strtoull(argv[5], 0, 10) : 0;
	int in_fd = packet_socket(argv[1], ETH_P_IP), out_fd = packet_socket(argv[2], 0);

	static unsigned char room[BATCH][ROOM];
	static struct iovec iov[BATCH], out_iov[BATCH];
	static struct mmsghdr in[BATCH], out[BATCH];
	for (int i = 0; i < BATCH; i++) {
		iov[i] = (struct iovec){ room[i], ROOM };
		in[i].msg_hdr = (struct msghdr){ .msg_iov = &iov[i], .msg_iovlen = 1 };
		out[i].msg_hdr = (struct msghdr){ .msg_iov = &out_iov[i], .msg_iovlen = 1 };
	}
	for (;;) {
		int n = recvmmsg(in_fd, in, BATCH, MSG_WAITFORONE, 0), ready = 0;
		if (n < 0) {
			if (errno == EINTR)
				continue;
			die("packetgw: recvmmsg");
		}
		for (int i = 0; i < n; i++)
			if (forward(room[i], in[i].msg_len, macs))
				out_iov[ready++] = (struct iovec){ room[i], in[i].msg_len };
		burn(extra * (uint64_t)n);
		for (int sent = 0, k; sent < ready; sent += k)
			if ((k = sendmmsg(out_fd, out + sent, (unsigned)(ready - sent), 0)) <= 0)
				k = 1; // that frame is lost; the generator will count it
	}
}
