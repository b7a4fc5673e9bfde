// router OBJECT PROGRAM INTERFACE INTERFACE
//
// Attaches a forwarder of router.bpf.c to both interfaces until it ends, and prints "ready". Routes and neighbours are the kernel's; nobody
// tells the cache of changes, for there are none.
#include "bpf.h"
#include <net/if.h>

int main(int argc, char **argv)
{
	if (argc != 5)
		die("router OBJECT PROGRAM INTERFACE INTERFACE");
	uint32_t a = if_nametoindex(argv[3]), b = if_nametoindex(argv[4]), generation = 1;
	int maps[] = { bpf_map(BPF_MAP_TYPE_DEVMAP, sizeof(uint32_t), (a > b ? a : b) + 1),
		       bpf_map(BPF_MAP_TYPE_PERCPU_ARRAY, sizeof(struct next_hop), NEXT_HOPS),
		       bpf_map(BPF_MAP_TYPE_ARRAY, sizeof generation, 1),
		       bpf_map(BPF_MAP_TYPE_PROG_ARRAY, sizeof(uint32_t), PROGRAMS),
		       bpf_map(BPF_MAP_TYPE_ARRAY, sizeof(uint32_t), 1) };
	int program = bpf_load(argv[1], argv[2], maps);
	for (uint32_t i = 0; i < PROGRAMS && !strcmp(argv[2], "codes"); i++) {
		int code = bpf_load(argv[1], "code", maps);
		bpf_put(maps[3], i, &code);
		close(code);
	}
	bpf_put(maps[0], a, &a);
	bpf_put(maps[0], b, &b);
	bpf_put(maps[2], 0, &generation);
	bpf_attach(program, a);
	bpf_attach(program, b);
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}
