#include "system/pass_fd.h"

#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

typedef union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
} control;

bool pass_fd(int socket, const void *message, size_t size, int fd) {
    control c = { .header = { .cmsg_len = CMSG_LEN(sizeof(int)),
                              .cmsg_level = SOL_SOCKET,
                              .cmsg_type = SCM_RIGHTS } };
    struct iovec data = { (void *)(uintptr_t)message, size };
    struct msghdr m = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof c
    };
    memcpy(CMSG_DATA(&c.header), &fd, sizeof fd);
    return sendmsg(socket, &m, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}

ssize_t receive_fd(int socket, void *message, size_t size, int *out_fd) {
    control c;
    struct iovec data = { message, size };
    struct msghdr m = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof c
    };
    *out_fd = -1;
    ssize_t n = recvmsg(socket, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    const struct cmsghdr *first = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
    if (first && first->cmsg_type == SCM_RIGHTS) memcpy(out_fd, CMSG_DATA(first), sizeof *out_fd);
    return n;
}
