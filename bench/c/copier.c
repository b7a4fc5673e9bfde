// copier OBJECT PINS INTERFACE
//
// Puts copier.bpf.c before the ingress that a node has attached to an interface and pinned in the folder PINS, and prints "ready". The copy
// goes with the node's link; without this process the way behind it is cut, so the node has to end first.
#include "bpf.h"
#include <net/if.h>

int main(int argc, char **argv)
{
	if (argc != 4)
		die("copier OBJECT PINS INTERFACE");
	char path[512];
	snprintf(path, sizeof path, "%s/link-%u-driver", argv[2], if_nametoindex(argv[3]));
	union bpf_attr open_link = { .pathname = (uintptr_t)path };
	int link = bpf_call(BPF_OBJ_GET, &open_link);
	if (link < 0)
		die(path);
	struct bpf_link_info info = { 0 };
	union bpf_attr ask = { .info = { .bpf_fd = (uint32_t)link, .info_len = sizeof info, .info = (uintptr_t)&info } };
	if (bpf_call(BPF_OBJ_GET_INFO_BY_FD, &ask))
		die("copier: link");
	union bpf_attr open_program = { .prog_id = info.prog_id };
	int ingress = bpf_call(BPF_PROG_GET_FD_BY_ID, &open_program);
	if (ingress < 0)
		die("copier: ingress");
	int maps[] = { bpf_map(BPF_MAP_TYPE_PERCPU_ARRAY, FRAME, 1), bpf_map(BPF_MAP_TYPE_PROG_ARRAY, 4, 1) };
	// As the ingress that it calls, it takes frames in several buffers: the kernel lets none call what is unlike it.
	int copy = bpf_load_flagged(BPF_PROG_TYPE_XDP, BPF_XDP, BPF_F_XDP_HAS_FRAGS, argv[1], "xdp/copy", maps);
	bpf_put(maps[1], 0, &ingress);
	union bpf_attr update = { .link_update = { .link_fd = (uint32_t)link, .new_prog_fd = (uint32_t)copy } };
	if (bpf_call(BPF_LINK_UPDATE, &update))
		die("copier: update");
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}
