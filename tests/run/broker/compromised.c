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

/* The first sockets of sequenced packets that are connected to something without a name: the broker's other ends. How many. */
static int find_broker(int ways[WAYS])
{
    int count = 0;
    for (int fd = 3; fd < 256 && count < WAYS; fd++) {
        int type = 0;
        socklen_t length = sizeof type;
        struct sockaddr_un peer = {0};
        socklen_t named = sizeof peer;
        if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) || type != SOCK_SEQPACKET)
            continue;
        if (!getpeername(fd, (struct sockaddr *)&peer, &named) && peer.sun_family == AF_UNIX && named <= sizeof(sa_family_t))
            ways[count++] = fd;
    }
    return count;
}

static void attempt(int fd, int number, const char *request)
{
    static char answer[70000];
    char space[CMSG_SPACE(32 * sizeof(int))];
    struct iovec part = {answer, sizeof answer - 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    if (send(fd, request, strlen(request), MSG_NOSIGNAL) < 0) {
        fprintf(stderr, "ATTEMPT %d: not sent\n", number);
        return;
    }
    ssize_t length = recvmsg(fd, &message, 0);
    answer[length < 0 ? 0 : length] = 0;
    fprintf(stderr, "ATTEMPT %d: %s%s\n", number, answer, message.msg_controllen ? " WITH A DESCRIPTOR" : "");
}

static void system_call(const char *what, int done)
{
    fprintf(stderr, "SYSTEM %s: %s\n", what, done ? "DONE" : "refused");
}

int main(int count, char **words)
{
    int ways[WAYS], found = find_broker(ways);
    fprintf(stderr, "BROKER %s\n", found < WAYS ? "not found" : "found");
    for (int at = 1; at < count; at++)
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
