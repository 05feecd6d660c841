#include "verdicts.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { KNOWN_MAX = 1024 };

// Who has told of joining.
static struct {
    uint64_t incarnation;
    pid_t pid;
} known[KNOWN_MAX];
static int known_count;

// Adds a mark of our own to the job's, for the children to find us by.
static int make_mark(char *out, size_t size) {
    uint64_t bits;
    char marks[512];
    const char *outer = getenv("GRADWIRE_JOB");
    if (getrandom(&bits, sizeof bits, 0) != sizeof bits) return -1;
    snprintf(out, size, "%016" PRIx64, bits);
    int n = snprintf(marks, sizeof marks, "%s%s%s", outer ? outer : "", outer ? ":" : "", out);
    return n < (int)sizeof marks ? setenv("GRADWIRE_JOB", marks, 1) : -1;
}

int verdicts_open(void) {
    char mark[32];
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0 || make_mark(mark, sizeof mark) != 0) return -1;
    int size = snprintf(at.sun_path + 1, sizeof at.sun_path - 1, "gradwire/%s", mark);
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)size);
    if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0 &&
        bind(fd, (struct sockaddr *)&at, length) == 0)
        return fd;
    close(fd);
    return -1;
}

static pid_t find_sender(struct msghdr *m) {
    struct ucred who;
    struct cmsghdr *c = CMSG_FIRSTHDR(m);
    if (!c || c->cmsg_type != SCM_CREDENTIALS) return 0;
    memcpy(&who, CMSG_DATA(c), sizeof who);
    return who.uid == geteuid() ? who.pid : 0;
}

static pid_t find_process(uint64_t incarnation) {
    for (int i = 0; i < known_count; i++)
        if (known[i].incarnation == incarnation) return known[i].pid;
    return 0;
}

pid_t verdicts_take(int fd) {
    for (;;) {
        char line[512], word[16];
        _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct ucred))];
        struct iovec part = { line, sizeof line - 1 };
        struct msghdr m = { .msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control,
                            .msg_controllen = sizeof control };
        ssize_t size = fd < 0 ? -1 : recvmsg(fd, &m, 0);
        if (size < 0) return 0;
        line[size] = '\0';
        uint64_t incarnation;
        pid_t from = find_sender(&m), dead;
        if (!from || sscanf(line, "%15s %16" SCNx64, word, &incarnation) != 2) continue;
        if (strcmp(word, "joins") == 0 && known_count < KNOWN_MAX) {
            known[known_count].incarnation = incarnation;
            known[known_count++].pid = from;
        }
        if (strcmp(word, "dead") == 0 && (dead = find_process(incarnation))) return dead;
    }
}
