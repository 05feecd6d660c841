#include "testing/testing.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

static bool is_free(int port) {
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    bool could_bind = bind(fd, (struct sockaddr *)&at, sizeof at) == 0;
    close(fd);
    return could_bind;
}

int testing_free_port(void) {
    // Linux assigns ports from 32768 on to sockets that name none.
    enum { FIRST = 10000, COUNT = 20000, OF_A_PROCESS = 64 };
    static _Atomic int chosen;
    int port;
    do port = FIRST + (getpid() % COUNT * OF_A_PROCESS + chosen++) % COUNT;
    while (!is_free(port));
    return port;
}
