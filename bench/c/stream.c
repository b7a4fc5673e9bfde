// stream NETNS_FILE NETNS_FILE ADDRESS SOFTIRQ_PID
//
// A TCP stream from the first namespace to ADDRESS in the second: sender and receiver are one thread, on one CPU, and
// take turns as the socket buffers let them. Prints "ready". The command, a line:
//   run BYTES    a new connection, so many bytes through it      → run BYTES CPU_NS WALL_NS
// CPU_NS is of this process and of the kernel's thread for softirqs of its CPU, SOFTIRQ_PID, if that is not 0. What is received is read.
#include "bench.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>

enum { CHUNK = 1 << 17, PATIENCE_MS = 5000 };

static pid_t softirq;
static int listener;
static struct sockaddr_in to = { .sin_family = AF_INET };

static void enter(const char *netns)
{
	int fd = open(netns, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET))
		die(netns);
	close(fd);
}

static uint64_t cpu_ns(void)
{
	clockid_t clock;
	struct timespec t = { 0 };
	if (!softirq || clock_getcpuclockid(softirq, &clock) || clock_gettime(clock, &t))
		t = (struct timespec){ 0 };
	return clock_ns(CLOCK_PROCESS_CPUTIME_ID) + (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// Whether a call that may not wait would have had to.
static int waits(ssize_t done)
{
	if (done < 0 && errno != EAGAIN)
		die("stream: connection");
	return done < 0;
}

static void transfer(int out, int in, uint64_t bytes)
{
	static char from[CHUNK], into[CHUNK];
	uint64_t sent = 0, received = 0;
	while (received < bytes) {
		ssize_t n;
		int stuck = 1;
		while (sent < bytes) {
			n = send(out, from, bytes - sent < CHUNK ? bytes - sent : CHUNK, MSG_DONTWAIT);
			if (waits(n))
				break;
			sent += (uint64_t)n;
			stuck = 0;
		}
		while (received < bytes) {
			n = recv(in, into, CHUNK, MSG_DONTWAIT);
			if (waits(n))
				break;
			if (!n)
				die("stream: ended");
			received += (uint64_t)n;
			stuck = 0;
		}
		struct pollfd wait[2] = { { .fd = in, .events = POLLIN },
					  { .fd = out, .events = sent < bytes ? POLLOUT : 0 } };
		if (stuck && poll(wait, 2, PATIENCE_MS) <= 0)
			die("stream: nothing comes through");
	}
}

static void run(uint64_t bytes)
{
	int out = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (out < 0 || connect(out, (struct sockaddr *)&to, sizeof to))
		die("stream: connect");
	int in = accept4(listener, 0, 0, SOCK_CLOEXEC);
	if (in < 0)
		die("stream: accept");
	uint64_t cpu = cpu_ns(), wall = clock_ns(CLOCK_MONOTONIC);
	transfer(out, in, bytes);
	wall = clock_ns(CLOCK_MONOTONIC) - wall;
	cpu = cpu_ns() - cpu;
	close(out);
	close(in);
	printf("run %llu %llu %llu\n", (unsigned long long)bytes, (unsigned long long)cpu, (unsigned long long)wall);
}

int main(int argc, char **argv)
{
	char line[64];
	unsigned long long bytes;
	struct sockaddr_in any = { .sin_family = AF_INET };
	socklen_t length = sizeof any;
	if (argc != 5 || inet_pton(AF_INET, argv[3], &to.sin_addr) != 1)
		die("stream NETNS NETNS ADDRESS SOFTIRQ_PID");
	setvbuf(stdout, 0, _IOLBF, 0);
	softirq = (pid_t)atoi(argv[4]);
	enter(argv[2]);
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (listener < 0 || bind(listener, (struct sockaddr *)&any, length) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&any, &length))
		die("stream: listen");
	to.sin_port = any.sin_port;
	enter(argv[1]);
	puts("ready");
	while (fgets(line, sizeof line, stdin))
		if (sscanf(line, "run %llu", &bytes) == 1 && bytes)
			run(bytes);
		else
			puts("what?");
}
