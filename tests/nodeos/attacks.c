/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * A hostile environment, in a role that owns nothing. It tries known attacks on nodes, and prints one line: "attacks:"
 * and then "NAME=refused" or "NAME=done" for each. At the end it takes memory, and reports that too. Arguments: a
 * process of the host, then sockets of nodes. With "greedy" as the only argument it takes connections and memory until
 * it is ended; with "hasty" it takes connections and closes them, and says when it has done that.
 */
#define _GNU_SOURCE
#include <anode/nodeos.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define FORKS 3000
#define CONNECTIONS 200
#define HASTE 3000
#define GIBIBYTE (1UL << 30)

static char line[4096] = "attacks:";

static void say(const char *name, int done)
{
    size_t length = strlen(line);
    snprintf(line + length, sizeof line - length, " %s=%s", name, done ? "done" : "refused");
}

static int reads(const char *path)
{
    char some[16];
    int file = open(path, O_RDONLY);
    int got = file >= 0 && read(file, some, sizeof some) > 0;
    if (file >= 0)
        close(file);
    return got;
}

static int connects(const char *path)
{
    int done = 0;
    for (int kind = 0; kind < 2; kind++) {
        struct sockaddr_un at = {.sun_family = AF_UNIX};
        int own = socket(AF_UNIX, kind ? SOCK_SEQPACKET : SOCK_STREAM, 0);
        snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
        done |= own >= 0 && connect(own, (struct sockaddr *)&at, sizeof at) == 0;
        close(own);
    }
    return done;
}

/* Whether a function is carried out in a process of its own, which may be killed for it. */
static int in_a_child(int (*attempt)(void))
{
    int status = 0;
    pid_t child = fork();
    if (child == 0)
        _exit(attempt() ? 42 : 0);
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 42;
}

static int new_user(void) { return unshare(CLONE_NEWUSER) == 0; }
static int new_user_by_clone(void)
{
    return syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0) >= 0;
}
static int mounts(void) { return mount("none", "/", "tmpfs", 0, 0) == 0; }
static int leaves_session(void) { return setsid() >= 0; }

static int takes_shared_memory(void)
{
    char *all = mmap(0, GIBIBYTE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED)
        return 0;
    for (size_t at = 0; at < GIBIBYTE; at += 4096)
        all[at] = 1;
    return 1;
}

static int takes_memory_file(void)
{
    int file = memfd_create("all", 0);
    char page[4096] = {1};
    for (size_t at = 0; file >= 0 && at < GIBIBYTE; at += sizeof page)
        if (write(file, page, sizeof page) != sizeof page)
            return 0;
    return file >= 0;
}

static int forks(void)
{
    static pid_t children[FORKS];
    int count = 0;
    while (count < FORKS) {
        pid_t child = fork();
        if (child == 0)
            for (;;)
                pause();
        if (child < 0)
            break;
        children[count++] = child;
    }
    for (int at = 0; at < count; at++)
        kill(children[at], SIGKILL);
    while (waitpid(-1, 0, 0) > 0)
        ;
    return count > 100;
}

/* A connection asked for over the descriptor that the node has given; -1 if there is none more. */
static int another(void)
{
    const char *number = getenv("ANODE_NODEOS_FD");
    char answer[64], room[CMSG_SPACE(sizeof(int))];
    struct iovec into = {answer, sizeof answer};
    struct msghdr message = {.msg_iov = &into, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    if (!number || send(atoi(number), "\35\0\0\0\0", 5, MSG_NOSIGNAL) != 5 || recvmsg(atoi(number), &message, 0) <= 0)
        return -1;
    struct cmsghdr *with = CMSG_FIRSTHDR(&message);
    return with ? *(int *)CMSG_DATA(with) : -1;
}

/* Says hello in the role of another by a child that is gone before the node looks who it was. */
static int is_another_by_a_child_that_died(void)
{
    static const char hello[] = "\1\0\0\0\0\0\1\0\6victim\0\1\0\0\0\0\0\0\0\0\0\1\0\4rich";
    char answer[256];
    int connection = another(), status;
    if (connection < 0)
        return 0;
    pid_t child = fork();
    if (child == 0)
        _exit(send(connection, hello, sizeof hello - 1, MSG_NOSIGNAL) != sizeof hello - 1);
    waitpid(child, &status, 0);
    ssize_t length = recv(connection, answer, sizeof answer, 0);
    close(connection);
    /* 134 welcomes, 143 refuses. */
    return length > 0 && (unsigned char)answer[0] == 134;
}

static int opens_of_another(an_Domain_t domain)
{
    return an_fileOpen(0, domain, "victim", "secret", AN_FILE_READ) != 0
        || an_fileOpen(0, domain, 0, "../victim/secret", AN_FILE_READ) != 0;
}

static void greedy(void)
{
    int count = 0;
    while (count < CONNECTIONS && another() >= 0)
        count++;
    fprintf(stderr, "greedy has %d\n", count);
    for (;;)
        another();
}

/* Says hello in its own role; -1 if it is not welcome. */
static int greets(int connection)
{
    static const char hello[] = "\1\0\0\0\0\0\1\0\5hasty\0\1\0\0\0\0\0\0\0\0\0\1\0\4rich";
    char answer[256];
    if (send(connection, hello, sizeof hello - 1, MSG_NOSIGNAL) != sizeof hello - 1)
        return -1;
    return recv(connection, answer, sizeof answer, 0) > 0 && (unsigned char)answer[0] == 134 ? 0 : -1;
}

static void hasty(void)
{
    int first = another(), welcome = 0;
    /* With the first one its domain would end. */
    if (first < 0 || greets(first) < 0)
        exit(1);
    for (int at = 0; at < HASTE; at++) {
        int connection = another();
        if (connection < 0)
            continue;
        if (at % 4 == 0)
            welcome += greets(connection) == 0;
        close(connection);
    }
    fprintf(stderr, "hasty was welcome %d\n", welcome);
    for (;;)
        pause();
}

int main(int count, char **words)
{
    if (count == 2 && !strcmp(words[1], "hasty"))
        hasty();
    if (count == 2 && !strcmp(words[1], "greedy"))
        greedy();
    pid_t outside = count > 1 ? atoi(words[1]) : 0;
    struct rlimit none = {0, 0};
    struct sched_param first = {1};
    say("shadow", reads("/etc/shadow") || reads("/proc/1/root/etc/shadow") || reads("/../etc/shadow"));
    say("memory-of-others", reads("/proc/1/mem") || reads("/dev/mem") || ptrace(PTRACE_ATTACH, getppid(), 0, 0) == 0);
    say("chmod", chmod(words[0], 04755) == 0 || chmod("/", 04777) == 0 || fchmod(0, 04755) == 0);
    say("xattr", setxattr(words[0], "user.x", "x", 1, 0) == 0);
    say("write", open("/new", O_CREAT | O_WRONLY, 0600) >= 0 || open("/usr/new", O_CREAT | O_WRONLY, 0600) >= 0);
    int sockets = 0;
    for (int at = 2; at < count; at++)
        sockets |= connects(words[at]);
    say("sockets", sockets);
    say("limits", prlimit(getppid(), RLIMIT_NOFILE, &none, 0) == 0 || (outside && prlimit(outside, RLIMIT_CPU, &none, 0) == 0));
    say("scheduling", sched_setscheduler(getppid(), SCHED_FIFO, &first) == 0 || sched_setscheduler(0, SCHED_FIFO, &first) == 0
                          || (outside && sched_setscheduler(outside, SCHED_BATCH, &first) == 0));
    say("priority", setpriority(PRIO_PROCESS, getppid(), 19) == 0);
    say("signals", outside && kill(outside, 0) == 0);
    say("users", in_a_child(new_user) || in_a_child(new_user_by_clone));
    say("mounts", in_a_child(mounts));
    say("session", in_a_child(leaves_session));
    say("privileges", setuid(0) == 0 || seteuid(0) == 0 || prctl(PR_CAPBSET_READ, 21, 0, 0, 0) == 1);
    say("network", socket(AF_INET, SOCK_STREAM, 0) >= 0 || socket(AF_PACKET, SOCK_RAW, 0) >= 0 || socket(AF_NETLINK, SOCK_RAW, 0) >= 0);
    say("ipc", shmget(IPC_PRIVATE, GIBIBYTE, 0600) >= 0);
    say("kernel", syscall(SYS_bpf, 0, 0, 0) >= 0 || syscall(SYS_perf_event_open, 0, 0, -1, -1, 0) >= 0
                      || syscall(SYS_io_uring_setup, 1, 0) >= 0 || errno == EFAULT);
    say("forks", in_a_child(forks));
    say("role", is_another_by_a_child_that_died());
    an_Node_t node = an_nodeConnect(0, 0);
    say("connected", node != 0);
    say("files", node && opens_of_another(an_domainSelf(node)));
    int connections = 0;
    while (connections < CONNECTIONS && another() >= 0)
        connections++;
    say("connections", connections > 16);
    fprintf(stderr, "%s.\n", line);
    /* It may be ended for this. */
    int memory = in_a_child(takes_shared_memory) || takes_memory_file();
    fprintf(stderr, "a gibibyte was %s\n", memory ? "taken" : "refused");
    for (;;)
        pause();
}
