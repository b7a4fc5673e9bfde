// The common part of the benchmarks' C programs: time, errors, and a calibrated burn of CPU time.
//
// These programs are the *other* side of every ratio that `anode bench` prints, so they are written to be
// fast and plain: one thread, batches of 64, blocking system calls, no allocation per packet.
#ifndef ANODE_BENCH_H
#define ANODE_BENCH_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 64, ROOM = 2048 };

static inline _Noreturn void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, errno ? strerror(errno) : "wrong usage");
	exit(1);
}

static inline uint64_t clock_ns(clockid_t id)
{
	struct timespec t;
	if (clock_gettime(id, &t))
		die("clock_gettime");
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// Burns `ns` nanoseconds: a known extra cost, by which the method itself is checked.
static inline void burn(uint64_t ns)
{
	if (!ns)
		return;
	for (uint64_t end = clock_ns(CLOCK_MONOTONIC) + ns; clock_ns(CLOCK_MONOTONIC) < end;)
		;
}

// A receive buffer that holds the largest burst; FORCE needs CAP_NET_ADMIN, else rmem_max is the ceiling.
static inline void deep_buffer(int fd)
{
	int bytes = 8 << 20;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes))
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}
#endif
