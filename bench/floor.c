// What the machine itself does: 64 bytes to another process and back over TCP loopback, without any
// library. The calls' figures are held against these, measured in the same run.
#include "bench.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MESSAGE_BYTES = 64 };

typedef struct side {
    int socket, epoll;
    double spin_us;  // looks for so long before it sleeps
} side;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static side side_of(int socket, double spin_us) {
    side s = { .socket = socket, .epoll = epoll_create1(EPOLL_CLOEXEC), .spin_us = spin_us };
    int one = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct epoll_event e = { .events = EPOLLIN };
    epoll_ctl(s.epoll, EPOLL_CTL_ADD, socket, &e);
    return s;
}

static bool receive(side *s) {
    char bytes[MESSAGE_BYTES];
    for (double start = now_us();;) {
        ssize_t n = recv(s->socket, bytes, sizeof bytes, MSG_DONTWAIT);
        if (n == 0) return false;
        if (n == MESSAGE_BYTES) return true;
        if (now_us() - start < s->spin_us) continue;
        struct epoll_event e;
        epoll_wait(s->epoll, &e, 1, -1);
    }
}

static void transmit(side *s) {
    char bytes[MESSAGE_BYTES] = { 0 };
    if (send(s->socket, bytes, sizeof bytes, MSG_NOSIGNAL) != MESSAGE_BYTES) fail("send");
}

static void ping_pong(samples *out, double spin_us, int rounds, long pause_us) {
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 1) ||
        getsockname(listener, (struct sockaddr *)&address, &size))
        fail("listen");
    if (connect(client, (struct sockaddr *)&address, sizeof address)) fail("connect");
    int server = accept(listener, NULL, NULL);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(client);
        side s = side_of(server, spin_us);
        while (receive(&s)) transmit(&s);
        _exit(0);
    }
    close(server);
    side s = side_of(client, spin_us);
    for (int i = 0; i < rounds; i++) {
        struct timespec pause = { .tv_nsec = pause_us * 1000 };
        if (pause_us) nanosleep(&pause, NULL);
        double start = now_us();
        transmit(&s);
        if (!receive(&s)) fail("receive");
        if (i > rounds / 10) samples_add(out, now_us() - start);
    }
    close(client);
    close(listener);
    close(s.epoll);
    waitpid(pid, NULL, 0);
}

static void tcp_spin(gw_scope *root, samples *out) {
    (void)root;
    ping_pong(out, 50, 20000, 0);
}

static void tcp_epoll(gw_scope *root, samples *out) {
    (void)root;
    ping_pong(out, 0, 5000, 0);
}

static void tcp_epoll_asleep(gw_scope *root, samples *out) {
    (void)root;
    ping_pong(out, 0, 200, 10000);
}

const bench_case floor_cases[] = {
    { "floor.tcp_spin50us_epoll", 0, tcp_spin },
    { "floor.tcp_epoll", 0, tcp_epoll },
    { "floor.tcp_epoll_asleep", 0, tcp_epoll_asleep },  // 10 ms apart
    { 0 },
};
