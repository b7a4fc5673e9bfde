// Loading programs into the kernel by bpf(2) alone: maps, instructions of an object file, XDP links, test runs.
//
// The programs (program.h) name their maps by number, so no relocation is left in the object file: each reference is a 64-bit
// constant whose upper half says what it is and whose lower half is the number. bpf_load puts the maps' descriptors there.
// Everything ends with the process: links, programs and maps are held by descriptors only.
#ifndef ANODE_BENCH_BPF_H
#define ANODE_BENCH_BPF_H
#include "bench.h"
#include "program.h"
#include <elf.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <sys/syscall.h>

enum { OBJECT = 1 << 16, LOG = 1 << 16, TAIL = 1000 };

static inline int bpf_call(int command, union bpf_attr *attr)
{
	return (int)syscall(SYS_bpf, command, attr, sizeof *attr);
}

static inline int bpf_map(enum bpf_map_type type, unsigned value, unsigned entries)
{
	union bpf_attr attr = { .map_type = type, .key_size = 4, .value_size = value, .max_entries = entries };
	int fd = bpf_call(BPF_MAP_CREATE, &attr);
	if (fd < 0)
		die("bpf: map");
	return fd;
}

static inline void bpf_put(int map, uint32_t key, const void *value)
{
	union bpf_attr attr = { .map_fd = (uint32_t)map, .key = (uintptr_t)&key, .value = (uintptr_t)value };
	if (bpf_call(BPF_MAP_UPDATE_ELEM, &attr))
		die("bpf: map update");
}

static inline void bpf_get(int map, uint32_t key, void *value)
{
	union bpf_attr attr = { .map_fd = (uint32_t)map, .key = (uintptr_t)&key, .value = (uintptr_t)value };
	if (bpf_call(BPF_MAP_LOOKUP_ELEM, &attr))
		die("bpf: map lookup");
}

// The instructions in a section of a 64-bit object file; returns how many.
static inline unsigned bpf_section(const char *path, const char *name, struct bpf_insn **code)
{
	static char file[OBJECT] __attribute__((aligned(8)));
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? -1 : read(fd, file, sizeof file);
	const Elf64_Ehdr *head = (const void *)file;
	if (length < (ssize_t)sizeof *head || length == sizeof file || head->e_machine != EM_BPF)
		die(path);
	close(fd);
	const Elf64_Shdr *section = (const void *)(file + head->e_shoff);
	const char *names = file + section[head->e_shstrndx].sh_offset;
	for (int i = 0; i < head->e_shnum; i++)
		if (!strcmp(names + section[i].sh_name, name)) {
			*code = (void *)(file + section[i].sh_offset);
			return (unsigned)(section[i].sh_size / sizeof **code);
		}
	die(name);
}

// Loads the program in a section "hook/name" for such a place; `maps` are its maps by number.
static inline int bpf_load_flagged(enum bpf_prog_type type, unsigned place, unsigned flags, const char *path,
				   const char *section, const int *maps)
{
	static char log[LOG];
	struct bpf_insn *code;
	const char *name = strchr(section, '/') + 1;
	unsigned count = bpf_section(path, section, &code);
	for (unsigned i = 0; i + 1 < count; i++)
		if (code[i].code == (BPF_LD | BPF_DW | BPF_IMM)) {
			uint32_t what = (uint32_t)code[i + 1].imm;
			if (what == MAP_MARK || what == VALUE_MARK) {
				code[i].src_reg = what == MAP_MARK ? BPF_PSEUDO_MAP_FD : BPF_PSEUDO_MAP_VALUE;
				code[i].imm = maps[code[i].imm];
				code[i + 1].imm = 0;
			}
			i++;
		}
	union bpf_attr attr = { .prog_type = type, .expected_attach_type = place, .insns = (uintptr_t)code,
				.license = (uintptr_t) "GPL", .insn_cnt = count, .prog_flags = flags };
	strncpy(attr.prog_name, name, sizeof attr.prog_name - 1);
	int fd = bpf_call(BPF_PROG_LOAD, &attr);
	if (fd < 0) { // once more, to hear why
		attr.log_buf = (uintptr_t)log, attr.log_size = sizeof log, attr.log_level = 1;
		bpf_call(BPF_PROG_LOAD, &attr);
		size_t said = strlen(log);
		fputs(said > TAIL ? log + said - TAIL : log, stderr);
		die(name);
	}
	return fd;
}

static inline int bpf_load_for(enum bpf_prog_type type, unsigned place, const char *path, const char *section, const int *maps)
{
	return bpf_load_flagged(type, place, 0, path, section, maps);
}

// Loads the XDP program of that name.
static inline int bpf_load(const char *path, const char *name, const int *maps)
{
	char section[64];
	snprintf(section, sizeof section, "xdp/%s", name);
	return bpf_load_for(BPF_PROG_TYPE_XDP, BPF_XDP, path, section, maps);
}

// Attaches a program to a hook of an interface until this process ends.
static inline void bpf_attach_at(int program, unsigned interface, unsigned hook, unsigned flags)
{
	union bpf_attr attr = { .link_create = { .prog_fd = (uint32_t)program, .target_ifindex = interface,
						 .attach_type = hook, .flags = flags } };
	if (!interface || bpf_call(BPF_LINK_CREATE, &attr) < 0)
		die("bpf: attach");
}

// Attaches a program to what comes in by an interface, natively.
static inline void bpf_attach(int program, unsigned interface)
{
	enum { NATIVE = 1 << 2 }; // XDP_FLAGS_DRV_MODE
	bpf_attach_at(program, interface, BPF_XDP, NATIVE);
}
#endif
