// children OBJECT WAY COUNT DESTINATION INTERFACE INTERFACE
//
// Makes the kernel send COUNT children in the place of every IPv4 packet that comes in by the first interface, by the
// second, to DESTINATION and the addresses after it, in a way of children.bpf.c: broadcast, marks or edits. Prints
// "ready"; everything goes with the process.
#include "bpf.h"
#include <arpa/inet.h>
#include <net/if.h>

enum { TCX_INGRESS = 46, TCX_EGRESS = 47 };

static int tcx(const char *object, const char *section, unsigned interface, unsigned hook, const int *maps)
{
	int program = bpf_load_for(BPF_PROG_TYPE_SCHED_CLS, 0, object, section, maps);
	bpf_attach_at(program, interface, hook, 0);
	return program;
}

int main(int argc, char **argv)
{
	if (argc != 7)
		die("children OBJECT WAY COUNT DESTINATION IN OUT");
	const char *object = argv[1], *way = argv[2];
	unsigned in = if_nametoindex(argv[5]), out = if_nametoindex(argv[6]);
	struct children children = { .count = (unsigned)atoi(argv[3]), .interface = out };
	struct device {
		uint32_t interface;
		int program;
	} device = { out, 0 };
	uint32_t generation = 1, first;
	if (!children.count || children.count > CHILDREN_MAX || inet_pton(AF_INET, argv[4], &first) != 1)
		die("children: count or destination");
	for (unsigned k = 0; k < children.count; k++)
		children.destinations[k] = htonl(ntohl(first) + k);
	int maps[] = { bpf_map(BPF_MAP_TYPE_DEVMAP, sizeof device, children.count),
		       bpf_map(BPF_MAP_TYPE_PERCPU_ARRAY, sizeof(struct next_hop), NEXT_HOPS),
		       bpf_map(BPF_MAP_TYPE_ARRAY, sizeof generation, 1),
		       bpf_map(BPF_MAP_TYPE_ARRAY, sizeof children, 1),
		       bpf_map(BPF_MAP_TYPE_PERCPU_ARRAY, sizeof(uint32_t), 1),
		       bpf_map(BPF_MAP_TYPE_ARRAY, sizeof children, 1) };
	bpf_put(maps[2], 0, &generation);
	bpf_put(maps[3], 0, &children);
	if (!strcmp(way, "broadcast")) {
		device.program = bpf_load_for(BPF_PROG_TYPE_XDP, BPF_XDP_DEVMAP, object, "xdp/behind", maps);
		for (unsigned k = 0; k < children.count; k++)
			bpf_put(maps[0], k, &device);
		bpf_attach(bpf_load(object, "broadcast", maps), in);
	} else {
		char section[64];
		snprintf(section, sizeof section, "tcx/%s", way);
		tcx(object, section, in, TCX_INGRESS, maps);
		if (!strcmp(way, "marks"))
			tcx(object, "tcx/leaving", out, TCX_EGRESS, maps);
		bpf_attach(bpf_load(object, "note", maps), in);
	}
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}
