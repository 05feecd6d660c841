#include "testing/redis_server.h"

#include "store/store_redis.h"
#include "testing/testing.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sockaddr_in address_of(int port) {
    return (struct sockaddr_in){ .sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)port),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

static bool answers(int port) {
    struct sockaddr_in at = address_of(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool connected = connect(fd, (struct sockaddr *)&at, sizeof at) == 0;
    close(fd);
    return connected;
}

_Noreturn static void become_server(int port, const char *password) {
    char number[16];
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    snprintf(number, sizeof number, "%d", port);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(nowhere, STDOUT_FILENO);
    execlp("redis-server", "redis-server", "--port", number, "--bind", "127.0.0.1", "--save", "",
           "--appendonly", "no", "--dir", "/tmp", "--requirepass", password ? password : "", NULL);
    _exit(127);
}

redis_server redis_server_start(const char *password) {
    redis_server r = { .port = testing_free_port() };
    if (!redis_is_built()) testing_skip("this build has no hiredis");
    if (system("command -v redis-server >/dev/null")) testing_skip("redis-server is not installed");
    snprintf(r.url, sizeof r.url, "redis://127.0.0.1:%d", r.port);
    r.pid = fork();
    assert_true(r.pid >= 0);
    if (r.pid == 0) become_server(r.port, password);
    while (!answers(r.port)) {
        assert_int_equal(waitpid(r.pid, NULL, WNOHANG), 0);
        poll(NULL, 0, 10);
    }
    return r;
}

void redis_server_stop(redis_server *r) {
    kill(r->pid, SIGKILL);
    waitpid(r->pid, NULL, 0);
}
