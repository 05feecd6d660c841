#include "news.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int news_open(const char *job_id) {
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    int size = snprintf(at.sun_path + 1, sizeof at.sun_path - 1, "gradwire/%s", job_id);
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)size);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0) return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0 &&
        bind(fd, (struct sockaddr *)&at, length) == 0)
        return fd;
    close(fd);
    return -1;
}

static bool parse(char *text, news *out) {
    static const char *const words[] = { "joins", "joined", "refused", "dead" };
    char word[16];
    int at = 0;
    if (sscanf(text, "%15s %16" SCNx64 " %n", word, &out->incarnation, &at) != 2) return false;
    for (int i = 0; i < (int)(sizeof words / sizeof words[0]); i++) {
        if (strcmp(word, words[i]) != 0) continue;
        out->kind = (news_kind)i;
        snprintf(out->why, sizeof out->why, "%s", text + at);
        return true;
    }
    return false;
}

// The sender, if it is one of this user's.
static pid_t find_sender(struct msghdr *m) {
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        struct ucred who;
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS) continue;
        memcpy(&who, CMSG_DATA(c), sizeof who);
        return who.uid == geteuid() ? who.pid : 0;
    }
    return 0;
}

bool news_take(int fd, news *out) {
    for (;;) {
        char text[NEWS_TEXT_SIZE];
        _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct ucred))];
        struct iovec part = { text, sizeof text - 1 };
        struct msghdr m = { .msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control,
                            .msg_controllen = sizeof control };
        ssize_t size = fd < 0 ? -1 : recvmsg(fd, &m, 0);
        if (size < 0) return false;
        text[size] = '\0';
        out->from = find_sender(&m);
        if (out->from > 0 && parse(text, out)) return true;
    }
}
