// What is shared memory's own; what all transports do is in src/testing/transport_conformance_test.c.
#include "net/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "testing/testing.h"

#define SECOND_NS ((int64_t)1000 * 1000 * 1000)

// One end of a stream that carries a pattern of bytes, each its place in the stream.
typedef struct end {
    env *env;
    stream *stream;
    bool opened, closed;
    gw_error why;
    waiter *waiter;
    uint64_t to_send, sent, received;
    char buffer[64 * 1024];
} end;

static char byte_at(uint64_t at) {
    return (char)(at * 7 + at / 251);
}

static void tell(end *x) {
    if (x->waiter && !x->waiter->woken) env_wake(x->env, x->waiter);
}

static void send_on(end *x) {
    static char bytes[64 * 1024];
    while (x->sent < x->to_send) {
        uint64_t left = x->to_send - x->sent;
        size_t size = left < sizeof bytes ? (size_t)left : sizeof bytes;
        for (size_t i = 0; i < size; i++) bytes[i] = byte_at(x->sent + i);
        size_t taken = stream_send(x->stream, &(struct iovec){ bytes, size }, 1);
        x->sent += taken;
        if (taken < size) return;
    }
}

static void on_opened(void *user) {
    end *x = user;
    x->opened = true;
    send_on(x);
    tell(x);
}

static void on_buffer(void *user, void **into, size_t *size) {
    end *x = user;
    *into = x->buffer;
    *size = sizeof x->buffer;
}

static void on_received(void *user, size_t count) {
    end *x = user;
    for (size_t i = 0; i < count; i++)
        if (x->buffer[i] != byte_at(x->received + i))
            fail_msg("byte %llu", (unsigned long long)(x->received + i));
    x->received += count;
    tell(x);
}

static void on_writable(void *user) {
    send_on(user);
}

static void on_closed(void *user, const gw_error *why) {
    end *x = user;
    assert_false(x->closed);
    x->closed = true;
    x->why = *why;
    tell(x);
}

static const stream_events end_events = { .opened = on_opened,
                                          .buffer = on_buffer,
                                          .received = on_received,
                                          .writable = on_writable,
                                          .closed = on_closed };

static void on_accepted(void *user, stream *s) {
    end *x = user;
    x->stream = s;
    x->opened = true;
    stream_adopt(s, &end_events, x);
    tell(x);
}

static bool is_open(const end *x) {
    return x->opened;
}
static bool is_closed(const end *x) {
    return x->closed;
}
static bool has_all(const end *x) {
    return x->received == x->to_send;
}

// With the loop lock.
static void wait_until(end *x, bool (*done)(const end *x)) {
    int64_t until_ns = env_now_ns(x->env) + 30 * SECOND_NS;
    while (!done(x)) {
        waiter w = { .what = "what happens to a stream" };
        x->waiter = &w;
        bool woken = env_wait(x->env, &w, until_ns);
        x->waiter = NULL;
        assert_true(woken);
    }
}

static void let_pass(env *e, int64_t ns) {
    waiter w = { .what = "some time to pass" };
    env_wait(e, &w, env_now_ns(e) + ns);
}

static env *open_env(void) {
    env *e = NULL;
    gw_error error;
    assert_int_equal(env_os_open(&e, &error), GW_OK);
    return e;
}

static end *new_end(env *e) {
    end *x = mem_calloc(sizeof *x);
    assert_non_null(x);
    x->env = e;
    return x;
}

// Two ends in one environment. The loop lock is held afterwards.
typedef struct pair {
    env *env;
    listener *listener;
    char address[ADDRESS_MAX];
    end *client, *server;
} pair;

static void listen_here(pair *p) {
    gw_error error;
    *p = (pair){ .env = open_env() };
    p->client = new_end(p->env);
    p->server = new_end(p->env);
    env_enter(p->env);
    assert_int_equal(shm_transport.listen(p->env, shm_transport.anywhere, on_accepted, p->server,
                                          &p->listener, p->address, &error),
                     GW_OK);
}

static void connect_end(end *x, const char *address) {
    gw_error error;
    assert_int_equal(shm_transport.connect(x->env, address, &end_events, x, &x->stream, &error),
                     GW_OK);
}

static void open_pair(pair *p) {
    listen_here(p);
    connect_end(p->client, p->address);
    wait_until(p->client, is_open);
    wait_until(p->server, is_open);
}

static void close_pair(pair *p) {
    env_leave(p->env);
    env_close(p->env);
    mem_free(p->client);
    mem_free(p->server);
}

static shm_stream *inside(end *x) {
    return list_entry(x->stream, shm_stream, stream);
}

static void send_more(end *x, end *to, uint64_t size) {
    x->to_send += size;
    to->to_send = x->to_send;  // what it is to have
    to->sent = to->to_send;
    send_on(x);
    wait_until(to, has_all);
}

// ---- Memory -------------------------------------------------------------------------------------

static uint64_t allocated_bytes(end *x) {
    struct stat s;
    assert_int_equal(fstat(inside(x)->map.fd, &s), 0);
    return (uint64_t)s.st_blocks * 512;
}

static bool has_shrunk(const end *x) {
    return allocated_bytes((end *)x) < 64 * 1024;
}

static void a_quiet_connection_is_small_and_a_busy_one_shrinks_back(void **state) {
    (void)state;
    pair p;
    open_pair(&p);
    send_more(p.client, p.server, 10);
    assert_in_range(allocated_bytes(p.client), 1, SEGMENT_PAGE_BYTES + 2 * RING_SMALL_BYTES);
    for (int i = 0; i < 1000; i++) send_more(p.client, p.server, 1000);
    assert_in_range(allocated_bytes(p.client), 1, SEGMENT_PAGE_BYTES + 2 * RING_SMALL_BYTES);
    send_more(p.client, p.server, 4 << 20);
    assert_true(allocated_bytes(p.client) > RING_BYTES);
    for (int i = 0; i < 100 && !has_shrunk(p.client); i++) let_pass(p.env, SECOND_NS / 10);
    assert_true(has_shrunk(p.client));
    send_more(p.client, p.server, 4 << 20);
    close_pair(&p);
}

static int count_mappings(void) {
    char line[512];
    int count = 0;
    FILE *f = fopen("/proc/self/maps", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) count += strstr(line, "gradwire-ring") != NULL;
    fclose(f);
    return count;
}

static int count_descriptors(void) {
    int count = 0;
    for (int fd = 0; fd < 256; fd++) count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void closed_streams_leave_nothing_behind(void **state) {
    (void)state;
    pair p;
    open_pair(&p);
    int descriptors = count_descriptors();
    for (int i = 0; i < 50; i++) {
        if (i % 2) {
            stream_close(p.client->stream);
            wait_until(p.server, is_closed);
        } else {
            stream_close(p.server->stream);
            wait_until(p.client, is_closed);
        }
        *p.client = *p.server = (end){ .env = p.env };
        connect_end(p.client, p.address);
        wait_until(p.client, is_open);
        wait_until(p.server, is_open);
        send_more(p.client, p.server, 100);
    }
    let_pass(p.env, 0);
    assert_true(count_descriptors() <= descriptors + 4);  // those closed last may still be there
    assert_in_range(count_mappings(), 2, 4);
    close_pair(&p);
}

// ---- Ends of processes --------------------------------------------------------------------------

static bool has_something(const end *x) {
    return x->received > 0;
}

// Killed at any moment: what had come is a beginning of what was sent, the end is told, and nothing is left.
static void the_end_of_a_killed_process_is_told_at_once(void **state) {
    (void)state;
    int count = testing_scaled(40);
    char address[ADDRESS_MAX];
    gw_error error;
    // The environments come after the forks: a process with threads cannot be forked well.
    for (int i = 0; i < count; i++) {
        int gate[2];
        assert_int_equal(pipe(gate), 0);
        pid_t child = fork();
        if (child == 0) {
            close(gate[1]);
            if (read(gate[0], address, sizeof address) != (ssize_t)sizeof address) _exit(0);
            end *x = mem_calloc(sizeof *x);
            x->env = open_env();
            env_enter(x->env);
            if (shm_transport.connect(x->env, address, &end_events, x, &x->stream, &error))
                _exit(1);
            x->to_send = i % 3 ? UINT64_MAX / 2 : 100;
            for (;;) let_pass(x->env, SECOND_NS);
        }
        close(gate[0]);
        pair p;
        listen_here(&p);
        assert_int_equal(write(gate[1], p.address, sizeof p.address), sizeof p.address);
        wait_until(p.server, has_something);
        for (int k = 0; k < i % 5; k++) let_pass(p.env, 0);
        assert_int_equal(kill(child, SIGKILL), 0);
        wait_until(p.server, is_closed);
        assert_int_equal(p.server->why.status, GW_DISCONNECTED);
        assert_non_null(strstr(p.server->why.text, "closed by the peer"));
        assert_int_equal(waitpid(child, NULL, 0), child);
        close(gate[1]);
        close_pair(&p);
        assert_int_equal(count_mappings(), 0);
    }
}

// ---- Strangers and liars ------------------------------------------------------------------------

static int connect_plain(const char *address) {
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    int size = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "gradwire/%s",
                        strchr(address, ':') + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)size);
    assert_int_equal(connect(fd, (struct sockaddr *)&name, length), 0);
    return fd;
}

static void send_with_descriptors(int fd, const void *bytes, size_t size, const int *passed,
                                  size_t count) {
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(4 * sizeof(int))];
    } control = { 0 };
    struct iovec part = { (void *)bytes, size };
    struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1 };
    if (count > 0) {
        m.msg_control = &control;
        m.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(c), passed, count * sizeof(int));
    }
    assert_int_equal(sendmsg(fd, &m, 0), (ssize_t)size);
}

static int memory(size_t size, int seals) {
    int fd = memfd_create("liar", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    if (seals) assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

typedef struct hello {
    char magic[8];
    uint64_t size;
} hello;

static const hello right = { "GWRING01", SEGMENT_BYTES }, other = { "GWRING02", SEGMENT_BYTES };

static void refuses_memory(const void *bytes, size_t size, size_t memory_size, int seals,
                           size_t descriptor_count) {
    pair p;
    listen_here(&p);
    int before = count_descriptors();
    int liar = connect_plain(p.address);
    wait_until(p.server, is_open);
    int m = memory(memory_size, seals), passed[4] = { m, m, m, m };
    send_with_descriptors(liar, bytes, size, passed, descriptor_count);
    wait_until(p.server, is_closed);
    assert_non_null(strstr(p.server->why.text, "it has sent"));
    close(m);
    close(liar);
    assert_true(count_descriptors() <= before);
    close_pair(&p);
}

static void memory_that_cannot_be_trusted_is_not_mapped(void **state) {
    (void)state;
    enum { ALL = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };
    refuses_memory(&right, sizeof right, SEGMENT_BYTES, 0, 1);
    refuses_memory(&right, sizeof right, SEGMENT_BYTES, F_SEAL_GROW | F_SEAL_SEAL, 1);
    refuses_memory(&right, sizeof right, SEGMENT_BYTES, F_SEAL_SHRINK, 1);
    refuses_memory(&right, sizeof right, SEGMENT_BYTES - 1, ALL, 1);
    refuses_memory(&right, sizeof right, 0, ALL, 1);
    refuses_memory(&other, sizeof other, SEGMENT_BYTES, ALL, 1);
    refuses_memory(&right, sizeof right - 1, SEGMENT_BYTES, ALL, 1);
    refuses_memory(&right, sizeof right, SEGMENT_BYTES, ALL, 0);
    refuses_memory(&right, sizeof right, SEGMENT_BYTES, ALL, 3);
    refuses_memory("x", 1, SEGMENT_BYTES, ALL, 0);
}

// Only root can become another user.
static void a_process_of_another_user_is_refused(void **state) {
    (void)state;
    if (geteuid() != 0) testing_skip("only root can be another user");
    int gate[2];
    char address[ADDRESS_MAX];
    assert_int_equal(pipe(gate), 0);
    pid_t child = fork();
    if (child == 0) {
        close(gate[1]);
        if (setgid(65534) || setuid(65534)) _exit(2);
        if (read(gate[0], address, sizeof address) != (ssize_t)sizeof address) _exit(3);
        int fd = connect_plain(address);
        char byte;
        _exit(read(fd, &byte, 1) == 0 ? 0 : 1);  // it was closed
    }
    close(gate[0]);
    pair p;
    listen_here(&p);
    assert_int_equal(write(gate[1], p.address, sizeof p.address), sizeof p.address);
    int status = -1;
    for (int i = 0; i < 3000 && waitpid(child, &status, WNOHANG) == 0; i++)
        let_pass(p.env, SECOND_NS / 100);
    assert_int_equal(status, 0);
    assert_false(p.server->opened);
    close(gate[1]);
    close_pair(&p);
}

static void what_cannot_be_in_the_words_ends_the_stream(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        pair p;
        open_pair(&p);
        send_more(p.client, p.server, 100);
        shm_stream *liar = inside(p.client);
        if (i == 0) atomic_store(&liar->out.words->tail, 1 << 30);
        if (i == 1) atomic_store(&liar->out.words->tail, 3);
        if (i == 2) atomic_store(&liar->in.words->head, 1 << 30);
        if (i == 3) {
            atomic_store(&liar->out.words->skip, 100);
            atomic_store(&liar->out.words->tail, 200);
        }
        send_on(p.server);
        p.server->to_send = p.server->sent = 0;
        if (i == 2) {
            p.server->to_send = RING_BYTES;
            send_on(p.server);
        }
        assert_int_equal(send(liar->fd, "", 1, 0), 1);
        wait_until(p.server, is_closed);
        assert_non_null(strstr(p.server->why.text, "cannot be"));
        wait_until(p.client, is_closed);
        close_pair(&p);
    }
}

// ---- Waking -------------------------------------------------------------------------------------

// And when the loop lock is given back: who sends and then waits for the answer is looking for it before its peer can give
// one.
static void a_burst_wakes_the_other_end_once(void **state) {
    (void)state;
    pair p;
    open_pair(&p);
    let_pass(p.env, SECOND_NS / 100);  // it sleeps meanwhile, and nobody looks
    uint64_t before = env_os_count(p.env).wakes;
    p.server->to_send = p.server->sent = 100;
    for (int i = 0; i < 100; i++) {
        p.client->to_send++;
        send_on(p.client);
    }
    assert_int_equal(env_os_count(p.env).wakes, before);
    env_leave(p.env);
    env_enter(p.env);
    assert_in_range(env_os_count(p.env).wakes - before, 0, 1);
    wait_until(p.server, has_all);
    close_pair(&p);
}

static void a_test_can_cut_connections(void **state) {
    (void)state;
    pair p;
    open_pair(&p);
    env_os_cut_every(p.env, 10);
    int sent = 0;
    while (!p.client->closed && sent < 1000) {
        p.client->to_send += 4;
        send_on(p.client);
        sent++;
        let_pass(p.env, 0);
    }
    wait_until(p.client, is_closed);
    wait_until(p.server, is_closed);
    assert_true(sent >= 5 && sent < 1000);
    assert_true(p.server->received < (uint64_t)sent * 4);
    assert_int_equal(p.client->why.status, GW_DISCONNECTED);
    close_pair(&p);
}

static void open_and_connect(void *context) {
    (void)context;
    env *e = NULL;
    gw_error error;
    if (env_os_open(&e, &error)) return;
    end *server = mem_calloc(sizeof *server), *client = mem_calloc(sizeof *client);
    listener *l = NULL;
    char address[ADDRESS_MAX];
    env_enter(e);
    if (!server || !client) goto close;
    server->env = client->env = e;
    client->to_send = 100;
    server->to_send = server->sent = 100;
    if (shm_transport.listen(e, shm_transport.anywhere, on_accepted, server, &l, address, &error))
        goto close;
    if (shm_transport.connect(e, address, &end_events, client, &client->stream, &error)) goto close;
    while (!client->closed && !has_all(server)) {
        waiter w = { .what = "bytes" };
        client->waiter = server->waiter = &w;
        assert_true(env_wait(e, &w, env_now_ns(e) + 30 * SECOND_NS));
        client->waiter = server->waiter = NULL;
    }
close:
    env_leave(e);
    env_close(e);
    mem_free(client);
    mem_free(server);
}

static void nothing_is_lost_without_memory(void **state) {
    (void)state;
    testing_alloc_failure_loop(open_and_connect, NULL);
}

GW_TESTS(net_shm, a_quiet_connection_is_small_and_a_busy_one_shrinks_back,
         closed_streams_leave_nothing_behind, the_end_of_a_killed_process_is_told_at_once,
         memory_that_cannot_be_trusted_is_not_mapped, a_process_of_another_user_is_refused,
         what_cannot_be_in_the_words_ends_the_stream, a_burst_wakes_the_other_end_once,
         a_test_can_cut_connections, nothing_is_lost_without_memory);
