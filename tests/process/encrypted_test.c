// Jobs with a key over TCP: workers with the key work as before, workers without it get an error that names the reason.
#include "base/limits.h"
#include "base/log.h"
#include "net/tls/certificate_make.h"
#include "net/tls/secret.h"
#include "testing/testing.h"

#include <dirent.h>
#include <errno.h>
#include <gradwire.h>
#include <malloc.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

GW_FUNCTION(encrypted_add, GW_POOL, "any, float") {
    return gw_value_of(gw_add(s, gw_arg_tensor(s, a, 0), gw_arg_float(s, a, 1)));
}

// ---- Workers, one thread each -------------------------------------------------------------------
typedef struct member {
    int rank;
    gw_job_kind job;
    const char *url, *key;
    bool insecure;
    bool is_in_vain;  // they do not meet: rank 1 gives up first
    void (*main)(gw_scope *root, int rank);
    gw_error error;
    pthread_t thread;
} member;

static void *run_member(void *arg) {
    member *m = arg;
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_options o = GW_OPTIONS(gw_rpc_options, .init_method = m->url, .key = m->key,
                                  .insecure = m->insecure, .job = m->job);
    if (m->is_in_vain) o.join_timeout_ms = testing_patient_ms(m->rank ? 750 : 1500);
    if (m->job) {
        o.name = m->rank ? "joined%d" : "founder";
    } else {
        o.rank = m->rank;
        o.world_size = 2;
    }
    gw_rpc_init_with(root, o);
    if (gw_ok(root)) m->main(root, m->rank);
    gw_rpc_shutdown(root);
    m->error = gw_scope_close(root);
    return NULL;
}

static void run_two(member *a, member *b) {
    a->rank = 0;
    b->rank = 1;
    member *both[2] = { a, b };
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&both[i]->thread, NULL, run_member, both[i]), 0);
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_join(both[i]->thread, NULL), 0);
}

static struct sockaddr_in loopback(int port) {
    return (struct sockaddr_in){ .sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)port),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

static int port;

static const char *new_url(void) {
    static char url[64];
    port = testing_free_port();
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d", port);
    return url;
}

typedef struct key_file {
    char path[64];
} key_file;

static key_file write_key(const char *text) {
    key_file k = { "/tmp/gw-key-XXXXXX" };
    int fd = mkstemp(k.path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    return k;
}

static key_file new_key(void) {
    char line[SECRET_LINE_MAX];
    gw_error error;
    assert_int_equal(secret_make_line(line, &error), GW_OK);
    setenv("GW_TRANSPORT", "tcp", 1);
    return write_key(line);
}

// The CA is the same for all certificates of a test.
static key_file new_certificate(const char *name) {
    static char ca[SECRET_TEXT_MAX];
    char text[SECRET_TEXT_MAX];
    certificate_name n;
    gw_error error;
    setenv("GW_TRANSPORT", "tcp", 1);
    assert_true(certificate_name_of(name, "*", &n));
    if (!ca[0]) assert_int_equal(certificate_make_ca(1, ca, &error), GW_OK);
    assert_int_equal(certificate_make(ca, "the CA", &n, 1, 1, text, &error), GW_OK);
    return write_key(text);
}

static void add_there(gw_scope *root, int rank) {
    const int64_t sizes[] = { 1, 1000, 3000000 };
    for (int i = 0; i < 3 && gw_ok(root); i++) {
        gw_tensor *x = gw_rand(root, GW_F32, sizes[i]);
        gw_tensor *y = gw_tensor_of(root, gw_rpc_sync(root, 1 - rank, "encrypted_add", x, 1.0));
        assert_true(gw_equal(root, y, gw_add(root, x, 1.0)));
    }
    if (gw_ok(root))
        assert_non_null(strstr(gw_rpc_path(root, gw_rpc_worker(root, 1 - rank)), "encrypted"));
}

static void nothing(gw_scope *root, int rank) {
    (void)root;
    (void)rank;
}

static void workers_with_the_same_key_work_together(void **state) {
    (void)state;
    key_file k = new_key();
    const char *url = new_url();
    member a = { .url = url, .key = k.path, .main = add_there }, b = a;
    run_two(&a, &b);
    assert_string_equal(a.error.text, "");
    assert_string_equal(b.error.text, "");
    unlink(k.path);
}

static void wait_for_both(gw_scope *root, int rank) {
    gw_watch *w = gw_watch_open(root);
    while (gw_ok(root) && gw_rpc_world_size(root) < 2) gw_watch_next(root, w);
    add_there(root, rank);
}

static void a_group_with_a_key_admits_workers_with_it(void **state) {
    (void)state;
    key_file k = new_key();
    const char *url = new_url();
    member a = { .url = url, .key = k.path, .main = wait_for_both, .job = GW_JOB_CREATE }, b = a;
    b.job = GW_JOB_JOIN;
    run_two(&a, &b);
    assert_string_equal(a.error.text, "");
    assert_string_equal(b.error.text, "");
    unlink(k.path);
}

static void expect(const gw_error *error, gw_status status, const char *words) {
    if (error->status != status || !strstr(error->text, words))
        fail_msg("%d \"%s\" should contain \"%s\"", error->status, error->text, words);
}

static void a_worker_with_another_key_gets_the_reason(void **state) {
    (void)state;
    key_file k = new_key(), other = new_key();
    const char *url = new_url();
    member a = { .url = url, .key = k.path, .is_in_vain = true, .main = nothing }, b = a;
    b.key = other.path;
    run_two(&a, &b);
    expect(&a.error, GW_TIMEOUT, "rank 1 of 2 did not join");
    expect(&b.error, GW_MISMATCH, "it does not accept the key of this worker");
    unlink(k.path);
    unlink(other.path);
}

static void a_worker_without_the_key_gets_the_reason(void **state) {
    (void)state;
    key_file k = new_key();
    const char *url = new_url();
    member a = { .url = url, .key = k.path, .is_in_vain = true, .main = nothing }, b = a;
    b.key = NULL;
    run_two(&a, &b);
    expect(&a.error, GW_TIMEOUT, "rank 1 of 2 did not join");
    expect(&b.error, GW_MISMATCH,
           "connections of this job are encrypted: all workers need the key file of the job");
    unlink(k.path);
}

static void a_host_without_the_key_receives_nothing(void **state) {
    (void)state;
    key_file k = new_key();
    const char *url = new_url();
    member a = { .url = url, .key = NULL, .is_in_vain = true, .main = nothing }, b = a;
    b.key = k.path;
    run_two(&a, &b);
    expect(&a.error, GW_TIMEOUT, "rank 1 of 2 did not join");
    expect(&b.error, GW_TIMEOUT, "the peer may have no key");
    unlink(k.path);
}

static _Atomic int warning_count;

static void count_warnings(const char *line) {
    warning_count += strstr(line, "has set insecure") != NULL;
}

static void insecure_logs_a_line_at_each_start(void **state) {
    (void)state;
    setenv("GW_TRANSPORT", "tcp", 1);
    log_hook = count_warnings;
    const char *url = new_url();
    member a = { .url = url, .insecure = true, .main = nothing }, b = a;
    run_two(&a, &b);
    log_hook = NULL;
    assert_string_equal(a.error.text, "");
    assert_int_equal(warning_count, 2);
}

// ---- Certificates -------------------------------------------------------------------------------

static void workers_with_certificates_work_together(void **state) {
    (void)state;
    key_file first = new_certificate("worker0=0"), second = new_certificate("worker1=1");
    const char *url = new_url();
    member a = { .url = url, .key = first.path, .main = add_there }, b = a;
    b.key = second.path;
    run_two(&a, &b);
    assert_string_equal(a.error.text, "");
    assert_string_equal(b.error.text, "");
    unlink(first.path);
    unlink(second.path);
}

static void a_group_with_certificates_admits_workers_with_them(void **state) {
    (void)state;
    key_file first = new_certificate("founder=0"), second = new_certificate("joined%d");
    const char *url = new_url();
    member a = { .url = url, .key = first.path, .main = wait_for_both, .job = GW_JOB_CREATE },
           b = a;
    b.job = GW_JOB_JOIN;
    b.key = second.path;
    run_two(&a, &b);
    assert_string_equal(a.error.text, "");
    assert_string_equal(b.error.text, "");
    unlink(first.path);
    unlink(second.path);
}

// A worker with another one's certificate does not start; a certificate that names only other workers is refused, too.
static void a_worker_with_the_certificate_of_another_gets_the_reason(void **state) {
    (void)state;
    key_file first = new_certificate("worker0=0"), second = new_certificate("worker7=7");
    const char *url = new_url();
    member a = { .url = url, .key = first.path, .is_in_vain = true, .main = nothing }, b = a;
    b.key = second.path;
    run_two(&a, &b);
    expect(&a.error, GW_TIMEOUT, "rank 1 of 2 did not join");
    expect(&b.error, GW_MISMATCH, "the certificate of this worker is for gradwire:*/7/worker7");
    unlink(first.path);
    unlink(second.path);
}

// ---- Unauthenticated peers ----------------------------------------------------------------------

static int count_descriptors(void) {
    int count = 0;
    DIR *d = opendir("/proc/self/fd");
    while (readdir(d)) count++;
    closedir(d);
    return count;
}

static int connect_to(void) {
    struct sockaddr_in a = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0) return fd;
    if (fd >= 0) close(fd);
    return -1;
}

// A ClientHello with no fault except an unknown key; its prefixes are incomplete handshakes.
static const uint8_t client_hello[] = {
    0x16, 0x03, 0x01, 0x00, 0x8d, 0x01, 0x00, 0x00, 0x89, 0x03, 0x03, 1,    2,    3,    4,    5,
    6,    7,    8,    9,    10,   11,   12,   13,   14,   15,   16,   17,   18,   19,   20,   21,
    22,   23,   24,   25,   26,   27,   28,   29,   30,   31,   32,   0x00, 0x00, 0x02, 0x13, 0x01,
    0x01, 0x00, 0x00, 0x5e, 0x00, 0x2b, 0x00, 0x03, 0x02, 0x03, 0x04, 0x00, 0x0a, 0x00, 0x04, 0x00,
    0x02, 0x00, 0x1d, 0x00, 0x2d, 0x00, 0x02, 0x01, 0x01, 0x00, 0x0d, 0x00, 0x04, 0x00, 0x02, 0x04,
    0x03, 0x00, 0x33, 0x00, 0x26, 0x00, 0x24, 0x00, 0x1d, 0x00, 0x20, 9,    9,    9,    9,    9,
};

static void do_nothing_with(const char *line) {
    (void)line;
}

// ---- Unauthenticated peers that connect all the time --------------------------------------------

// From an address of their own, like peers of another host.
_Noreturn static void connect_in_a_row(_Atomic int *done) {
    struct sockaddr_in from = loopback(0), to = loopback(port);
    from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
    for (;; ++*done) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (bind(fd, (struct sockaddr *)&from, sizeof from) == 0 &&
            connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
            send(fd, client_hello, sizeof client_hello, MSG_NOSIGNAL);
        close(fd);
    }
}

static _Atomic int *peer_count;

// Waits until another member has joined, which unauthenticated peers must not prevent.
static void found_amid_connects(gw_scope *root, int rank) {
    if (rank != 0) {
        add_there(root, rank);
        return;
    }
    gw_watch *w = gw_watch_open(root);
    while (gw_ok(root) && gw_rpc_world_size(root) < 2) gw_watch_next(root, w);
    int before = *peer_count;
    add_there(root, rank);
    // The peers connect during these calls.
    while (gw_ok(root) && *peer_count < before + 100) add_there(root, rank);
}

static void a_member_joins_while_unauthenticated_peers_connect(void **state) {
    (void)state;
    key_file k = new_key();
    const char *url = new_url();
    peer_count =
        mmap(NULL, sizeof *peer_count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    member a = { .url = url, .key = k.path, .main = found_amid_connects, .job = GW_JOB_CREATE },
           b = a;
    a.rank = 0;
    b.rank = 1;
    b.job = GW_JOB_JOIN;
    log_hook = do_nothing_with;
    pid_t peer = fork();
    if (peer == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        connect_in_a_row(peer_count);
    }
    assert_int_equal(pthread_create(&a.thread, NULL, run_member, &a), 0);
    int fd;
    while ((fd = connect_to()) < 0) sched_yield();  // it listens
    close(fd);
    for (int seen = *peer_count; *peer_count < seen + 500;) sched_yield();
    assert_int_equal(pthread_create(&b.thread, NULL, run_member, &b), 0);
    assert_int_equal(pthread_join(b.thread, NULL), 0);
    assert_int_equal(pthread_join(a.thread, NULL), 0);
    kill(peer, SIGKILL);
    waitpid(peer, NULL, 0);
    log_hook = NULL;
    testing_note("%d connections, \"%s\", \"%s\"", *peer_count, a.error.text, b.error.text);
    assert_string_equal(a.error.text, "");
    assert_string_equal(b.error.text, "");
    munmap((void *)peer_count, sizeof *peer_count);
    unlink(k.path);
}

enum { AT_ONCE = 300, LINGERING_MAX = 256 };

// Some connections are silent, some send plain text, some stop in the middle of a handshake, some begin one without a
// key.
static void connect_often(gw_scope *root, int rank) {
    if (rank != 0) return;
    int fds[AT_ONCE], count = testing_scaled(10000), before = count_descriptors();
    struct mallinfo2 first = { 0 }, last;
    memset(fds, -1, sizeof fds);
    for (int i = 0; i < count; i++) {
        int *fd = &fds[i % AT_ONCE];
        if (*fd >= 0) close(*fd);
        *fd = connect_to();
        assert_true(*fd >= 0);
        if (i % 4 == 1) send(*fd, "GRADWIRE", 8, MSG_NOSIGNAL);
        if (i % 4 == 2) send(*fd, client_hello, 1 + (size_t)i % sizeof client_hello, MSG_NOSIGNAL);
        if (i % 4 == 3) send(*fd, "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03", 10, MSG_NOSIGNAL);
        if (i == count / 5) first = mallinfo2();
        if (i % 100) continue;
        gw_scope *s = gw_scope_open(root);
        gw_tensor *y =
            gw_tensor_of(s, gw_rpc_sync(s, 1, "encrypted_add", gw_full(s, GW_F32, i, 1), 1.0));
        assert_true(gw_item(s, y) == i + 1);
        gw_scope_close_up(s);
        assert_true(gw_ok(root));
        // Descriptors of this test, of both workers' pending handshakes, and of connections that the kernel has not
        // closed yet.
        assert_true(count_descriptors() <=
                    before + AT_ONCE + 2 * (LIMIT_HANDSHAKE_COUNT + LINGERING_MAX) + 64);
    }
    last = mallinfo2();
    for (int i = 0; i < AT_ONCE; i++)
        if (fds[i] >= 0) close(fds[i]);
    testing_note("%zu bytes after a fifth of them, %zu at the end", first.uordblks, last.uordblks);
    // A pending handshake holds at most 64 KiB, including OpenSSL's memory.
    assert_true(last.uordblks < first.uordblks + LIMIT_HANDSHAKE_COUNT * (size_t)65536);
}

static void thousands_of_unauthenticated_peers_disturb_no_call(void **state) {
    (void)state;
    key_file k = new_key();
    const char *url = new_url();
    log_hook = do_nothing_with;
    member a = { .url = url, .key = k.path, .main = connect_often }, b = a;
    run_two(&a, &b);
    log_hook = NULL;
    assert_string_equal(a.error.text, "");
    assert_string_equal(b.error.text, "");
    unlink(k.path);
}

GW_TESTS(encrypted, workers_with_the_same_key_work_together,
         a_group_with_a_key_admits_workers_with_it, a_worker_with_another_key_gets_the_reason,
         a_worker_without_the_key_gets_the_reason, a_host_without_the_key_receives_nothing,
         insecure_logs_a_line_at_each_start, workers_with_certificates_work_together,
         a_group_with_certificates_admits_workers_with_them,
         a_worker_with_the_certificate_of_another_gets_the_reason,
         a_member_joins_while_unauthenticated_peers_connect,
         thousands_of_unauthenticated_peers_disturb_no_call);
