// 400 MB through TCP over loopback, from one process to another: plain, by OpenSSL as its own examples use it, and
// through our streams, plain and encrypted. The difference between the last and the second is the overhead of our
// streams.
#include "bench.h"
#include "pair.h"

#include "net/connection.h"
#include "net/env_os.h"
#include "net/tcp/tcp.h"
#include "net/tls/tls.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define TOTAL_BYTES ((size_t)400000000)

enum { ROUNDS = 5, PIECE_BYTES = 256 * 1024 };

static char piece[PIECE_BYTES];

// ---- Without the library ------------------------------------------------------------------------

// Forks a child that has the other end of a pair of TCP sockets. Returns true in the child.
static bool fork_pair(int *out_fd) {
    int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof a;
    pair_check(bind(listener, (struct sockaddr *)&a, size) == 0 && listen(listener, 1) == 0 &&
                   getsockname(listener, (struct sockaddr *)&a, &size) == 0 &&
                   connect(client, (struct sockaddr *)&a, size) == 0,
               "a pair of sockets");
    int server = accept(listener, NULL, NULL);
    pair_check(server >= 0, "accept");
    close(listener);
    fflush(NULL);
    pid_t pid = fork();
    pair_check(pid >= 0, "fork");
    *out_fd = pid ? client : server;
    close(pid ? server : client);
    if (pid == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
    return pid == 0;
}

static void floor_of(samples *out, bool encrypted) {
    pair_options options = { .encrypted = encrypted, .bytes = TOTAL_BYTES, .rounds = ROUNDS };
    if (fork_pair(&options.fd)) {
        pair_receive(options);
        _exit(0);
    }
    pair_send(options, out);
    wait(NULL);
}

static void plain_floor(gw_scope *root, samples *out) {
    (void)root;
    floor_of(out, false);
}

static void openssl_floor(gw_scope *root, samples *out) {
    (void)root;
    floor_of(out, true);
}

// ---- Our streams --------------------------------------------------------------------------------

typedef struct end {
    env *env;
    stream *stream;
    bool is_open, sends;
    size_t left;  // to be sent, or received, in this round
    waiter *waiter;
} end;

static void wake(end *x) {
    if (x->waiter) env_wake(x->env, x->waiter);
    x->waiter = NULL;
}

static void wait_for_event(end *x) {
    waiter w = { .what = "bytes" };
    x->waiter = &w;
    env_wait(x->env, &w, ENV_NEVER);
}

static void send_more(end *x) {
    while (x->left > 0) {
        struct iovec part = { piece, x->left < sizeof piece ? x->left : sizeof piece };
        size_t n = stream_send(x->stream, &part, 1);
        x->left -= n;
        if (n < part.iov_len) return;
    }
}

static void on_opened(void *user) {
    end *x = user;
    x->is_open = true;
    wake(x);
}

static void on_buffer(void *user, void **into, size_t *size) {
    (void)user;
    *into = piece;
    *size = sizeof piece;
}

static void on_received(void *user, size_t count) {
    end *x = user;
    if (!x->sends) {
        x->left = count < x->left ? x->left - count : 0;
        if (x->left > 0) return;
    }
    wake(x);
}

static void on_writable(void *user) {
    send_more(user);
}

static void on_closed(void *user, const gw_error *why) {
    (void)user;
    fprintf(stderr, "%s\n", why->text);
    _exit(1);
}

static const stream_events events = { .opened = on_opened,
                                      .buffer = on_buffer,
                                      .received = on_received,
                                      .writable = on_writable,
                                      .closed = on_closed };

static protection worker(uint64_t incarnation) {
    static secret key = { .key_count = 1 };
    return (protection){ .secret = &key, .self = { .incarnation = incarnation } };
}

typedef struct reception {
    end end;
    tls *tls;  // NULL: none
} reception;

static void on_accepted(void *user, stream *s) {
    reception *r = user;
    r->end.stream = r->tls ? tls_accept(r->tls, s) : s;
    stream_adopt(r->end.stream, &events, &r->end);
    on_opened(&r->end);
}

static tls *open_tls(env *e, const protection *p) {
    tls *t;
    gw_error error;
    if (!tls_open((tls_options){ .env = e, .protection = p, .plain_answer = "" }, &t, &error))
        return t;
    fprintf(stderr, "%s\n", error.text);
    exit(1);
}

// Runs in a child process; sends its address through |fd|.
static void receive_by_streams(int fd, bool encrypted) {
    reception r = { .end.left = TOTAL_BYTES };
    protection self = worker(2);
    listener *l;
    gw_error error;
    char address[ADDRESS_MAX] = "";
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (env_os_open(&r.end.env, &error)) _exit(1);
    env *e = r.end.env;
    env_enter(e);
    if (encrypted) r.tls = open_tls(e, &self);
    if (tcp_transport.listen(e, "127.0.0.1:0", on_accepted, &r, &l, address, &error)) _exit(1);
    if (write(fd, address, sizeof address) != sizeof address) _exit(1);
    while (!r.end.is_open) wait_for_event(&r.end);
    for (int i = 0; i < ROUNDS; i++) {
        while (r.end.left > 0) wait_for_event(&r.end);
        r.end.left = TOTAL_BYTES;
        stream_send(r.end.stream, &(struct iovec){ piece, 1 }, 1);
    }
    waiter w = { .what = "the last byte to leave" };
    env_wait(e, &w, env_now_ns(e) + 100000000);
    _exit(0);
}

static void by_streams(samples *out, bool encrypted) {
    int ends[2];
    char address[ADDRESS_MAX];
    gw_error error;
    end x = { .sends = true };
    pair_check(pipe(ends) == 0, "pipe");
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) receive_by_streams(ends[1], encrypted);
    pair_check(pid > 0 && read(ends[0], address, sizeof address) == sizeof address, "an address");
    pair_check(env_os_open(&x.env, &error) == 0, "an env");
    env_enter(x.env);
    protection self = worker(1);
    const route r = { &tcp_transport, address };
    gw_status status =
        encrypted ? tls_connect(open_tls(x.env, &self), &r, NULL, &events, &x, &x.stream, &error)
                  : tcp_transport.connect(x.env, address, &events, &x, &x.stream, &error);
    pair_check(status == GW_OK, "connect");
    while (!x.is_open) wait_for_event(&x);
    for (int i = 0; i < ROUNDS; i++) {
        double start = now_us();
        x.left = TOTAL_BYTES;
        send_more(&x);
        wait_for_event(&x);  // the other end's byte
        samples_add(out, now_us() - start);
    }
    env_leave(x.env);
    wait(NULL);
}

static void plain_streams(gw_scope *root, samples *out) {
    (void)root;
    by_streams(out, false);
}

static void encrypted_streams(gw_scope *root, samples *out) {
    (void)root;
    by_streams(out, true);
}

const bench_case tls_cases[] = {
    { "floor.tcp_400MB", 0, plain_floor },
    { "floor.openssl_400MB", 0, openssl_floor },
    { "stream.tcp_400MB", 0, plain_streams },
    { "stream.tls_400MB", 0, encrypted_streams },
    { 0 },
};
