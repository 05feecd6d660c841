// Properties of shared memory alone; those of all transports are in src/testing/transport_conformance_test.c.
#include "net/shm/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "net/env_os.h"
#include "testing/stream_end.h"
#include "testing/testing.h"

#define SECOND_NS ((int64_t)1000 * 1000 * 1000)

// Two ends in one environment. The loop lock is held afterwards.
static stream_pair listen_here(void) {
    env *e = NULL;
    gw_error error;
    assert_int_equal(env_os_open(&e, &error), GW_OK);
    env_enter(e);
    return stream_pair_listen(e, &shm_transport, shm_transport.anywhere);
}

static stream_pair open_pair(void) {
    stream_pair p = listen_here();
    stream_pair_connect(&p);
    return p;
}

static void close_pair(stream_pair *p) {
    stream_pair_close(p);
    env_leave(p->env);
    env_close(p->env);
}

static shm_stream *inside(const stream_end *x) {
    return list_entry(x->stream, shm_stream, stream);
}

static void send_and_wait(stream_end *x, stream_end *to, size_t size) {
    stream_end_send(x, size);
    stream_end_wait_for_bytes(to, x->to_send);
}

// ---- Memory -------------------------------------------------------------------------------------

static uint64_t allocated_bytes(const stream_end *x) {
    struct stat s;
    assert_int_equal(fstat(inside(x)->map.fd, &s), 0);
    return (uint64_t)s.st_blocks * 512;
}

static bool has_shrunk(const stream_end *x) {
    return allocated_bytes((stream_end *)x) < 64 * 1024;
}

static void a_quiet_connection_is_small_and_a_busy_one_shrinks_back(void **state) {
    (void)state;
    stream_pair p = open_pair();
    send_and_wait(p.client, p.server, 10);
    assert_in_range(allocated_bytes(p.client), 1, SEGMENT_PAGE_BYTES + 2 * RING_SMALL_BYTES);
    for (int i = 0; i < 1000; i++) send_and_wait(p.client, p.server, 1000);
    assert_in_range(allocated_bytes(p.client), 1, SEGMENT_PAGE_BYTES + 2 * RING_SMALL_BYTES);
    send_and_wait(p.client, p.server, 4 << 20);
    assert_true(allocated_bytes(p.client) > RING_BYTES);
    for (int i = 0; i < 100 && !has_shrunk(p.client); i++)
        stream_end_let_pass(p.env, SECOND_NS / 10);
    assert_true(has_shrunk(p.client));
    send_and_wait(p.client, p.server, 4 << 20);
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
    stream_pair p = open_pair();
    int descriptors = count_descriptors();
    for (int i = 0; i < 50; i++) {
        if (i % 2) {
            stream_end_let_go(p.client);
            stream_end_wait(p.server, stream_end_is_closed);
        } else {
            stream_end_let_go(p.server);
            stream_end_wait(p.client, stream_end_is_closed);
        }
        stream_end_reset(p.client);
        stream_end_reset(p.server);
        stream_pair_connect(&p);
        send_and_wait(p.client, p.server, 100);
    }
    stream_end_let_pass(p.env, 0);
    assert_true(count_descriptors() <= descriptors + 4);  // those closed last may still be there
    assert_in_range(count_mappings(), 2, 4);
    close_pair(&p);
}

// ---- Ends of processes --------------------------------------------------------------------------

static bool has_something(const stream_end *x) {
    return x->received > 0;
}

// Killed at any moment: the received bytes are a prefix of the sent ones, the end is reported, and nothing is leaked.
static void the_end_of_a_killed_process_is_reported_at_once(void **state) {
    (void)state;
    int count = testing_scaled(40);
    char address[ADDRESS_MAX];
    gw_error error;
    // The environments are opened after the forks: a process with threads cannot be forked safely.
    for (int i = 0; i < count; i++) {
        int gate[2];
        assert_int_equal(pipe(gate), 0);
        pid_t child = fork();
        if (child == 0) {
            close(gate[1]);
            if (read(gate[0], address, sizeof address) != (ssize_t)sizeof address) _exit(0);
            env *e = NULL;
            if (env_os_open(&e, &error)) _exit(1);
            stream_end *x = stream_end_open(e);
            env_enter(e);
            if (stream_end_connect(x, &shm_transport, address, &error)) _exit(1);
            x->to_send = i % 3 ? SIZE_MAX / 2 : 100;
            for (;;) stream_end_let_pass(e, SECOND_NS);
        }
        close(gate[0]);
        stream_pair p = listen_here();
        assert_int_equal(write(gate[1], p.address, sizeof p.address), sizeof p.address);
        stream_end_wait(p.server, has_something);
        for (int k = 0; k < i % 5; k++) stream_end_let_pass(p.env, 0);
        assert_int_equal(kill(child, SIGKILL), 0);
        stream_end_wait(p.server, stream_end_is_closed);
        assert_int_equal(p.server->why.status, GW_DISCONNECTED);
        assert_non_null(strstr(p.server->why.text, "closed by the peer"));
        assert_int_equal(waitpid(child, NULL, 0), child);
        close(gate[1]);
        close_pair(&p);
        assert_int_equal(count_mappings(), 0);
    }
}

// ---- Unauthenticated and hostile peers ----------------------------------------------------------

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
    stream_pair p = listen_here();
    int before = count_descriptors();
    int liar = connect_plain(p.address);
    stream_end_wait(p.server, stream_end_is_open);
    int m = memory(memory_size, seals), passed[4] = { m, m, m, m };
    send_with_descriptors(liar, bytes, size, passed, descriptor_count);
    stream_end_wait(p.server, stream_end_is_closed);
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
    stream_pair p = listen_here();
    assert_int_equal(write(gate[1], p.address, sizeof p.address), sizeof p.address);
    int status = -1;
    for (int i = 0; i < 3000 && waitpid(child, &status, WNOHANG) == 0; i++)
        stream_end_let_pass(p.env, SECOND_NS / 100);
    assert_int_equal(status, 0);
    assert_false(p.server->opened);
    close(gate[1]);
    close_pair(&p);
}

static void impossible_words_end_the_stream(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        stream_pair p = open_pair();
        send_and_wait(p.client, p.server, 100);
        shm_stream *liar = inside(p.client);
        if (i == 0) atomic_store(&liar->out.words->tail, 1 << 30);
        if (i == 1) atomic_store(&liar->out.words->tail, 3);
        if (i == 2) atomic_store(&liar->in.words->head, 1 << 30);
        if (i == 3) {
            atomic_store(&liar->out.words->skip, 100);
            atomic_store(&liar->out.words->tail, 200);
        }
        if (i == 2) stream_end_send(p.server, RING_BYTES);
        assert_int_equal(send(liar->fd, "", 1, 0), 1);
        stream_end_wait(p.server, stream_end_is_closed);
        assert_non_null(strstr(p.server->why.text, "invalid values"));
        stream_end_wait(p.client, stream_end_is_closed);
        close_pair(&p);
    }
}

// ---- Waking -------------------------------------------------------------------------------------

// The wake-up is sent when the loop lock is released: a sender that then waits for the reply already checks for it
// before its peer can send one.
static void a_burst_wakes_the_other_end_once(void **state) {
    (void)state;
    stream_pair p = open_pair();
    stream_end_let_pass(p.env, SECOND_NS / 100);  // it sleeps meanwhile, and no thread checks
    uint64_t before = env_os_count(p.env).wakes;
    for (int i = 0; i < 100; i++) stream_end_send(p.client, 1);
    assert_int_equal(env_os_count(p.env).wakes, before);
    env_leave(p.env);
    env_enter(p.env);
    assert_in_range(env_os_count(p.env).wakes - before, 0, 1);
    stream_end_wait_for_bytes(p.server, 100);
    close_pair(&p);
}

// ---- Patient bytes ------------------------------------------------------------------------------

// Two workers; the server has a thread that waits for work.
typedef struct workers {
    env *client_env, *server_env;
    stream_end *client, *server;
    waiter idle;
} workers;

static void wait_for_work(void *arg) {
    workers *p = arg;
    env_enter(p->server_env);
    env_wait(p->server_env, &p->idle, ENV_NEVER);
    env_leave(p->server_env);
}

static void open_workers(workers *p) {
    gw_error error;
    listener *l;
    char address[ADDRESS_MAX];
    *p = (workers){ .idle.idle = true };
    assert_int_equal(env_os_open(&p->client_env, &error), GW_OK);
    assert_int_equal(env_os_open(&p->server_env, &error), GW_OK);
    p->client = stream_end_open(p->client_env);
    p->server = stream_end_open(p->server_env);
    assert_int_equal(env_spawn(p->server_env, wait_for_work, p, &error), GW_OK);
    env_enter(p->server_env);
    assert_int_equal(shm_transport.listen(p->server_env, shm_transport.anywhere, stream_end_accept,
                                          p->server, &l, address, &error),
                     GW_OK);
    env_leave(p->server_env);
    env_enter(p->client_env);
    assert_int_equal(stream_end_connect(p->client, &shm_transport, address, &error), GW_OK);
    stream_end_wait(p->client, stream_end_is_open);
    env_leave(p->client_env);
    env_enter(p->server_env);
    stream_end_wait(p->server, stream_end_is_open);
    env_leave(p->server_env);
}

static void close_workers(workers *p) {
    env_enter(p->server_env);
    env_wake(p->server_env, &p->idle);
    stream_end_close(p->server);
    env_leave(p->server_env);
    env_enter(p->client_env);
    stream_end_close(p->client);
    env_leave(p->client_env);
    env_close(p->client_env);
    env_close(p->server_env);
}

// Returns how often the server has been woken for it.
static uint64_t send_to_server(workers *p, bool is_patient) {
    uint64_t before = env_os_count(p->client_env).wakes;
    env_enter(p->client_env);
    p->client->stream->is_patient = is_patient;
    stream_end_send(p->client, 1);
    env_leave(p->client_env);
    return env_os_count(p->client_env).wakes - before;
}

static void receive_all(workers *p) {
    env_enter(p->server_env);
    stream_end_wait_for_bytes(p->server, p->client->to_send);
    env_leave(p->server_env);
}

// Checks without waiting, which would take the bytes.
static bool has_all(workers *p) {
    env_enter(p->server_env);
    bool all = p->server->received == p->client->to_send;
    env_leave(p->server_env);
    return all;
}

// Its thread has left the loop, while the one that waits for work sleeps.
static void make_server_leave(workers *p) {
    do {
        send_to_server(p, false);
        receive_all(p);
    } while (!ring_out_is_away(&inside(p->client)->out));
}

static void patient_bytes_do_not_wake_a_worker_that_is_away(void **state) {
    (void)state;
    workers p;
    open_workers(&p);
    make_server_leave(&p);
    for (int i = 0; i < 10; i++) assert_int_equal(send_to_server(&p, true), 0);
    receive_all(&p);
    make_server_leave(&p);
    assert_int_equal(send_to_server(&p, true), 0);
    assert_int_equal(send_to_server(&p, false), 1);  // for both
    receive_all(&p);
    close_workers(&p);
}

static void patient_bytes_wake_a_worker_that_expects_them(void **state) {
    (void)state;
    workers p;
    open_workers(&p);
    make_server_leave(&p);
    env_enter(p.server_env);
    env_expect(p.server_env, 1);
    env_leave(p.server_env);
    assert_int_equal(send_to_server(&p, true), 1);
    receive_all(&p);
    assert_false(ring_out_is_away(&inside(p.client)->out));
    env_enter(p.server_env);
    env_expect(p.server_env, -1);
    env_leave(p.server_env);
    make_server_leave(&p);
    close_workers(&p);
}

// Also bytes that arrived before: on the thread that waits for work.
static void env_expect_handles_bytes_that_arrived_before(void **state) {
    (void)state;
    workers p;
    open_workers(&p);
    make_server_leave(&p);
    assert_int_equal(send_to_server(&p, true), 0);
    env_enter(p.server_env);
    env_expect(p.server_env, 1);
    env_leave(p.server_env);
    while (!has_all(&p)) sched_yield();
    close_workers(&p);
}

static void a_sender_that_falls_asleep_wakes_its_peer(void **state) {
    (void)state;
    workers p;
    open_workers(&p);
    make_server_leave(&p);
    assert_int_equal(send_to_server(&p, true), 0);
    while (!has_all(&p)) {
        env_enter(p.client_env);
        stream_end_let_pass(p.client_env, SECOND_NS / 100);
        env_leave(p.client_env);
    }
    close_workers(&p);
}

static void a_test_can_cut_connections(void **state) {
    (void)state;
    stream_pair p = open_pair();
    env_os_cut_every(p.env, 10);
    int sent = 0;
    while (!p.client->closed && sent < 1000) {
        stream_end_send(p.client, 4);
        sent++;
        stream_end_let_pass(p.env, 0);
    }
    stream_end_wait(p.client, stream_end_is_closed);
    stream_end_wait(p.server, stream_end_is_closed);
    assert_true(sent >= 5 && sent < 1000);
    assert_true(p.server->received < (size_t)sent * 4);
    assert_int_equal(p.client->why.status, GW_DISCONNECTED);
    close_pair(&p);
}

static void open_and_connect(void *context) {
    (void)context;
    stream_ends_try(&shm_transport, shm_transport.anywhere);
}

static void nothing_is_lost_without_memory(void **state) {
    (void)state;
    testing_alloc_failure_loop(open_and_connect, NULL);
}

static void a_limit_of_file_sizes_is_an_error(void **state) {
    (void)state;
    struct rlimit small = { 1 << 12, 1 << 12 };
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    segment_map map;
    gw_error error;
    assert_int_equal(segment_make(&map, &error), GW_SYSTEM);
    assert_non_null(strstr(error.text, "File too large (ulimit -f is 4)"));
}

static void without_descriptors_the_limit_is_named(void **state) {
    (void)state;
    env *e = NULL;
    gw_error listening, connecting;
    listener *l = NULL;
    stream *s = NULL;
    char bound[ADDRESS_MAX];
    struct rlimit before, none;
    static const stream_events events = { 0 };
    assert_int_equal(env_os_open(&e, &listening), GW_OK);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){ .rlim_cur = 3, .rlim_max = before.rlim_max };
    env_enter(e);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    shm_transport.listen(e, shm_transport.anywhere, NULL, NULL, &l, bound, &listening);
    shm_transport.connect(e, "0000000000000001:0000000000000001", &events, NULL, &s, &connecting);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    env_leave(e);
    env_close(e);
    static const char reason[] =
        "this host cannot be identified: Too many open files (ulimit -n is 3)";
    assert_int_equal(listening.status, GW_SYSTEM);
    assert_non_null(strstr(listening.text, reason));
    // Not an address that is invalid: the peer would be lost.
    assert_int_equal(connecting.status, GW_SYSTEM);
    assert_non_null(strstr(connecting.text, reason));
}

GW_TESTS(net_shm, without_descriptors_the_limit_is_named,
         a_quiet_connection_is_small_and_a_busy_one_shrinks_back,
         closed_streams_leave_nothing_behind, the_end_of_a_killed_process_is_reported_at_once,
         memory_that_cannot_be_trusted_is_not_mapped, a_process_of_another_user_is_refused,
         impossible_words_end_the_stream, a_burst_wakes_the_other_end_once,
         patient_bytes_do_not_wake_a_worker_that_is_away,
         patient_bytes_wake_a_worker_that_expects_them,
         env_expect_handles_bytes_that_arrived_before, a_sender_that_falls_asleep_wakes_its_peer,
         a_test_can_cut_connections, nothing_is_lost_without_memory,
         a_limit_of_file_sizes_is_an_error);
