// Baselines of the machine without any library: 64 bytes to another process and back over TCP loopback and through
// shared memory, and copies of large memory. The times of calls are compared with these, measured in the same run.
#include "bench.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MESSAGE_BYTES = 64 };

typedef struct side {
    int socket, epoll;
    double spin_us;  // polls this long before it sleeps
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

// ---- Shared memory ------------------------------------------------------------------------------

typedef struct word {
    _Alignas(64) _Atomic uint64_t count;
    _Alignas(64) _Atomic bool sleeps;
    int bell;
} word;

static void wake(word *w) {
    if (!atomic_load(&w->sleeps) || !atomic_exchange(&w->sleeps, false)) return;
    if (write(w->bell, &(uint64_t){ 1 }, 8) != 8) fail("write");
}

// Polls for 20 us, yielding the processor, then sleeps. A long yield means that other threads need the processor: then
// the next waits sleep at once, and their number doubles each time.
typedef struct spin_policy {
    int sleep_at_once, penalty;
} spin_policy;

static bool poll_for(word *w, uint64_t count, spin_policy *p) {
    if (p->sleep_at_once > 0) {
        p->sleep_at_once--;
        return false;
    }
    double start = now_us(), last = start;
    for (;;) {
        if (atomic_load(&w->count) >= count) {
            if (p->penalty > 0) p->penalty--;
            return true;
        }
        sched_yield();
        double now = now_us();
        if (now - last > 100) {
            p->penalty = p->penalty ? p->penalty * 2 : 256;
            if (p->penalty > 8192) p->penalty = 8192;
            p->sleep_at_once = p->penalty;
            return false;
        }
        if (now - start > 20) return false;
        last = now;
    }
}

static void wait_for(word *w, uint64_t count, spin_policy *p) {
    if (poll_for(w, count, p)) return;
    for (;;) {
        atomic_store(&w->sleeps, true);
        if (atomic_load(&w->count) >= count) break;
        uint64_t bell;
        if (read(w->bell, &bell, 8) != 8) fail("read");
    }
    atomic_store(&w->sleeps, false);
}

static void ring_ping_pong(samples *out, int rounds, long pause_us) {
    word *words =
        mmap(NULL, 2 * sizeof *words, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (words == MAP_FAILED) fail("mmap");
    words[0].bell = eventfd(0, 0);
    words[1].bell = eventfd(0, 0);
    spin_policy p = { 0 };
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (uint64_t i = 1; i <= (uint64_t)rounds; i++) {
            wait_for(&words[0], i, &p);
            atomic_store(&words[1].count, i);
            wake(&words[1]);
        }
        _exit(0);
    }
    for (uint64_t i = 1; i <= (uint64_t)rounds; i++) {
        struct timespec pause = { .tv_nsec = pause_us * 1000 };
        if (pause_us) nanosleep(&pause, NULL);
        double start = now_us();
        atomic_store(&words[0].count, i);
        wake(&words[0]);
        wait_for(&words[1], i, &p);
        if (i > (uint64_t)rounds / 10) samples_add(out, now_us() - start);
    }
    waitpid(pid, NULL, 0);
    close(words[0].bell);
    close(words[1].bell);
    munmap(words, 2 * sizeof *words);
}

static void ring(gw_scope *root, samples *out) {
    (void)root;
    ring_ping_pong(out, 20000, 0);
}

static void ring_asleep(gw_scope *root, samples *out) {
    (void)root;
    ring_ping_pong(out, 200, 10000);
}

// ---- One process writes, the other reads --------------------------------------------------------

enum { TOUCHED = 1 << 20 };

#define FOR_THIS_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))

FOR_THIS_PROCESSOR static void add_1(float *restrict y, const float *restrict x) {
    for (int i = 0; i < TOUCHED; i++) y[i] = x[i] + 1;
}

FOR_THIS_PROCESSOR static float sum_of(const float *y) {
    enum { LANES = 128 };
    float sums[LANES] = { 0 }, sum = 0;
    for (int i = 0; i < TOUCHED; i += LANES)
        for (int lane = 0; lane < LANES; lane++) sums[lane] += y[i + lane];
    for (int lane = 0; lane < LANES; lane++) sum += sums[lane];
    return sum;
}

// The work of rpc.touch_4MB by two processes that share the memory of both tensors: the child adds 1 to each number of
// the first and writes it into the second, the parent sums the second.
static void touch_4mb(gw_scope *root, samples *out) {
    (void)root;
    size_t bytes = 2 * sizeof(word) + 2 * TOUCHED * sizeof(float);
    word *words = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (words == MAP_FAILED) fail("mmap");
    float *x = (float *)(words + 2), *y = x + TOUCHED;
    for (int i = 0; i < TOUCHED; i++) x[i] = 1, y[i] = 0;
    words[0].bell = eventfd(0, 0);
    words[1].bell = eventfd(0, 0);
    const uint64_t rounds = 220;
    spin_policy p = { 0 };
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (uint64_t round = 1; round <= rounds; round++) {
            wait_for(&words[0], round, &p);
            add_1(y, x);
            atomic_store(&words[1].count, round);
            wake(&words[1]);
        }
        _exit(0);
    }
    for (uint64_t round = 1; round <= rounds; round++) {
        double start = now_us();
        atomic_store(&words[0].count, round);
        wake(&words[0]);
        wait_for(&words[1], round, &p);
        if (sum_of(y) != 2 * TOUCHED) fail("sum");
        if (round > rounds / 10) samples_add(out, now_us() - start);
    }
    waitpid(pid, NULL, 0);
    close(words[0].bell);
    close(words[1].bell);
    munmap(words, bytes);
}

// ---- Copies of 400 MB ---------------------------------------------------------------------------

#define LARGE_BYTES ((size_t)400 << 20)

static char *warm_memory(void) {
    char *p = mmap(NULL, LARGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) fail("mmap");
    madvise(p, LARGE_BYTES, MADV_HUGEPAGE);
    memset(p, 1, LARGE_BYTES);
    return p;
}

static void copy_400mb(gw_scope *root, samples *out) {
    (void)root;
    char *from = warm_memory(), *to = warm_memory();
    for (int i = 0; i < 7; i++) {
        double start = now_us();
        memcpy(to, from, LARGE_BYTES);
        if (i > 1) samples_add(out, now_us() - start);
    }
    munmap(from, LARGE_BYTES);
    munmap(to, LARGE_BYTES);
}

static void vm_readv_400mb(gw_scope *root, samples *out) {
    (void)root;
    char *to = warm_memory(), *from = warm_memory();
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        memset(from, 2, LARGE_BYTES);  // its own pages
        kill(getpid(), SIGSTOP);
        _exit(0);
    }
    int status;
    waitpid(pid, &status, WUNTRACED);
    for (int i = 0; i < 7; i++) {
        double start = now_us();
        for (size_t done = 0; done < LARGE_BYTES; done += 1 << 20) {
            struct iovec here = { to + done, 1 << 20 }, there = { from + done, 1 << 20 };
            if (process_vm_readv(pid, &here, 1, &there, 1, 0) != 1 << 20) fail("process_vm_readv");
        }
        if (i > 1) samples_add(out, now_us() - start);
    }
    kill(pid, SIGCONT);
    waitpid(pid, NULL, 0);
    munmap(from, LARGE_BYTES);
    munmap(to, LARGE_BYTES);
}

const bench_case floor_cases[] = {
    { "floor.ring", 0, ring },
    { "floor.ring_asleep", 0, ring_asleep },  // 10 ms apart
    { "floor.touch_4MB", 0, touch_4mb },
    { "floor.copy_400MB", 0, copy_400mb },
    { "floor.vm_readv_400MB", 0, vm_readv_400mb },
    { "floor.tcp_spin50us_epoll", 0, tcp_spin },
    { "floor.tcp_epoll", 0, tcp_epoll },
    { "floor.tcp_epoll_asleep", 0, tcp_epoll_asleep },  // 10 ms apart
    { 0 },
};
