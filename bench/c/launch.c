// launch [-n NETNS_FILE] [-c CPU] [-s | -S] PROGRAM ARGUMENT…     or     launch -H
//
// Starts PROGRAM in its place: in a network namespace, on one CPU, and bound to die with its parent. -s makes generator
// and gateway take turns: under SCHED_FIFO at equal priority nobody preempts them, nor they each other, so a batch is
// cut only by who waits; -S goes before them, for a generator that shares its CPU with what polls. Without the right to
// that, SCHED_BATCH at least lets no wake-up preempt; foreign processes still do.
// -H holds a new, nameless network namespace until standard input closes: however the benchmark ends, the
// kernel then removes the namespace with all interfaces in it.
#include "bench.h"
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>

static void hold(void)
{
	char byte;
	if (unshare(CLONE_NEWNET))
		die("launch: new network namespace (needs root)");
	puts("ready");
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	exit(0);
}

static void enter(const char *file)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET))
		die(file);
	close(fd);
}

int main(int argc, char **argv)
{
	struct sched_param none = { 0 }, lowest = { 1 }, next = { 2 };
	cpu_set_t cpus;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int option; (option = getopt(argc, argv, "+n:c:sSH")) != -1;)
		switch (option) {
		case 'n':
			enter(optarg);
			break;
		case 'c':
			CPU_ZERO(&cpus);
			CPU_SET((size_t)atoi(optarg), &cpus);
			if (sched_setaffinity(0, sizeof cpus, &cpus))
				die("launch: sched_setaffinity");
			break;
		case 's':
		case 'S':
			if (sched_setscheduler(0, SCHED_FIFO, option == 's' ? &lowest : &next) &&
			    sched_setscheduler(0, SCHED_BATCH, &none))
				die("launch: SCHED_BATCH");
			break;
		case 'H':
			hold();
			break;
		default:
			return 2;
		}
	if (optind >= argc)
		die("launch: no program");
	execvp(argv[optind], argv + optind);
	die(argv[optind]);
}
