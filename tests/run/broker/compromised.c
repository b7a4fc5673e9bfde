/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * A shared object in the node's process, as an attacker would place it. It finds the broker's socket among the node's
 * descriptors and sends its arguments there, each a request. Then it tries acts that the system itself would have to
 * allow. A line for each on its standard error: "ATTEMPT n: answer" or "SYSTEM act: refused|DONE".
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* Ways to the broker. */
#define WAYS 10

/* Sockets that may be one. */
#define SOCKETS 64

static char answer[70000];

/* Takes an answer, if there is one, and tells it. */
static int take(int fd, int number, int flags)
{
    char space[CMSG_SPACE(32 * sizeof(int))];
    struct iovec part = {answer, sizeof answer - 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    ssize_t length = recvmsg(fd, &message, flags);
    answer[length < 0 ? 0 : length] = 0;
    if (flags && answer[0] != '{')
        return 0;
    fprintf(stderr, "ATTEMPT %d: %s%s\n", number, answer, message.msg_controllen ? " WITH A DESCRIPTOR" : "");
    return 1;
}

/* Sockets of sequenced packets that this process has made, without a name: the broker's other ends are among them. How many. */
static int candidates(struct pollfd all[SOCKETS])
{
    int count = 0;
    for (int fd = 3; fd < 256 && count < SOCKETS; fd++) {
        int type = 0;
        struct sockaddr_un peer = {0};
        struct ucred maker = {0};
        socklen_t length = sizeof type, named = sizeof peer, made = sizeof maker;
        if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) || type != SOCK_SEQPACKET)
            continue;
        if (getpeername(fd, (struct sockaddr *)&peer, &named) || peer.sun_family != AF_UNIX || named > sizeof(sa_family_t))
            continue;
        if (!getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &maker, &made) && maker.pid == getpid())
            all[count++] = (struct pollfd){.fd = fd, .events = POLLIN};
    }
    return count;
}

/* The ways are those that answer the first request; who is at the other sockets says nothing to it. How many. */
static int find_broker(int ways[WAYS], const char *request)
{
    struct pollfd all[SOCKETS];
    int found = 0, count = candidates(all);
    if (count < WAYS)
        return 0;
    for (int at = 0; at < count; at++)
        if (send(all[at].fd, request, strlen(request), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            all[at].fd = -1;
    while (found < WAYS && poll(all, count, -1) > 0) {
        for (int at = 0; at < count && found < WAYS; at++) {
            if (!all[at].revents)
                continue;
            if (all[at].revents & POLLIN && take(all[at].fd, 1, MSG_DONTWAIT))
                ways[found++] = all[at].fd;
            all[at].fd = -1;
        }
    }
    return found;
}

static void attempt(int fd, int number, const char *request)
{
    if (send(fd, request, strlen(request), MSG_NOSIGNAL) < 0)
        fprintf(stderr, "ATTEMPT %d: not sent\n", number);
    else
        take(fd, number, 0);
}

static void system_call(const char *what, int done)
{
    fprintf(stderr, "SYSTEM %s: %s\n", what, done ? "DONE" : "refused");
}

int main(int count, char **words)
{
    int ways[WAYS], found = find_broker(ways, words[1]);
    fprintf(stderr, "BROKER %s\n", found < WAYS ? "not found" : "found");
    for (int at = 2; at < count; at++)
        for (int way = 0; way < found; way++)
            attempt(ways[way], at, words[at]);
    system_call("setuid", !setuid(0));
    system_call("setgroups", !setgroups(0, 0));
    system_call("packet socket", socket(AF_PACKET, SOCK_RAW, 0) >= 0);
    system_call("raw socket", socket(AF_INET, SOCK_RAW, 1) >= 0);
    system_call("mount", !mount("none", "/tmp", "tmpfs", 0, 0));
    system_call("shadow", open("/etc/shadow", O_RDONLY) >= 0);
    system_call("file outside", open("/tmp/anode-was-here", O_CREAT | O_WRONLY, 0600) >= 0);
    system_call("kill broker", !kill(getppid(), SIGKILL));
    system_call("ptrace", !ptrace(PTRACE_ATTACH, getppid(), 0, 0));
    system_call("dumpable", prctl(PR_GET_DUMPABLE) != 0);
    fprintf(stderr, "SYSTEM end\n");
    return 0;
}
