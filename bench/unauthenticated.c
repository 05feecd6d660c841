// Calls between two members of a job with a key, while an unauthenticated peer connects 10,000 times in a row to one of
// them and repeats the first bytes of a member: of all its messages this costs a worker most, both sides of a
// handshake. For comparison the same connections to a socket outside the job, which cost the machine the same, and the
// members only the processor.
#include "bench.h"

#include "net/tls/secret.h"
#include "net/tls/tls_identity.h"

#include <netinet/in.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CONNECTIONS = 10000, BATCH = 1000, BATCHES_MIN = 10, HELLO_MAX = 2048 };

typedef enum target { NO_PEER, OTHER_SOCKET, MEMBER } target;

GW_FUNCTION(bench_unauthenticated_null, GW_INLINE, "int") {
    return gw_none();
}

static void need(bool done, const char *name) {
    if (done) return;
    perror(name);
    exit(1);
}

static struct sockaddr_in address(int port) {
    return (struct sockaddr_in){ .sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)port),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

// A socket that listens at a port of its own; its owner closes it.
static int listen_somewhere(int *out_port) {
    struct sockaddr_in at = address(0);
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    need(bind(fd, (struct sockaddr *)&at, size) == 0 && listen(fd, 4096) == 0 &&
             getsockname(fd, (struct sockaddr *)&at, &size) == 0,
         "a socket");
    *out_port = ntohs(at.sin_port);
    return fd;
}

// ---- The first bytes of a member ----------------------------------------------------------------
typedef struct opening {
    tls_identity identity;
    uint8_t psk[TLS_PSK_BYTES];
    uint8_t hello[HELLO_MAX];
    int size;
} opening;

static int offer(SSL *ssl, const EVP_MD *digest, const unsigned char **out_id, size_t *out_size,
                 SSL_SESSION **out) {
    static const unsigned char cipher[] = { 0x13, 0x01 };
    opening *s = SSL_get_app_data(ssl);
    SSL_SESSION *session = SSL_SESSION_new();
    (void)digest;
    SSL_SESSION_set1_master_key(session, s->psk, sizeof s->psk);
    SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, cipher));
    SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION);
    *out_id = s->identity.bytes;
    *out_size = s->identity.size;
    *out = session;
    return 1;
}

static void record_opening(const char *key_file, opening *out) {
    const tls_parties parties = { .purpose = TLS_STORE,
                                  .client = { .name = "w1", .rank = 1, .incarnation = 1 },
                                  .server = { .rank = PARTY_RANK_UNKNOWN } };
    secret *s;
    gw_error error;
    need(!secret_open_file(key_file, &s, &error) &&
             tls_identity_seal(&s->keys[0], &parties, &out->identity, out->psk),
         "a key");
    SSL_CTX *c = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION);
    SSL_CTX_set1_groups_list(c, "X25519");
    SSL_CTX_set_psk_use_session_callback(c, offer);
    SSL *ssl = SSL_new(c);
    SSL_set_app_data(ssl, out);
    SSL_set_bio(ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_connect_state(ssl);
    SSL_do_handshake(ssl);
    out->size = BIO_read(SSL_get_wbio(ssl), out->hello, sizeof out->hello);
    need(out->size > 0, "a hello");
    SSL_free(ssl);
    SSL_CTX_free(c);
    secret_close(s);
}

// ---- Processes ----------------------------------------------------------------------------------

static pid_t fork_child(void) {
    fflush(NULL);
    pid_t pid = fork();
    need(pid >= 0, "fork");
    if (pid == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
    return pid;
}

_Noreturn static void connect_in_a_row(int port, const opening *s, _Atomic int *done) {
    for (; *done < CONNECTIONS; ++*done) {
        struct sockaddr_in at = address(port);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(fd, (struct sockaddr *)&at, sizeof at) == 0 &&
            send(fd, s->hello, (size_t)s->size, MSG_NOSIGNAL) != s->size)
            perror("send");
        close(fd);
    }
    _exit(0);
}

_Noreturn static void answer_in_a_row(int listener) {
    uint8_t received[HELLO_MAX] = { 0 };
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        recv(fd, received, sizeof received, 0);
        close(fd);
    }
}

static void join(gw_scope *root, int rank, int port, const char *key) {
    gw_rpc_init(root, .name = gw_format(root, "w%d", rank), .rank = rank, .world_size = 2,
                .init_method = gw_format(root, "tcp://127.0.0.1:%d", port), .key = key);
}

_Noreturn static void serve(int port, const char *key) {
    gw_scope *root = gw_scope_open(NULL);
    // Hides the messages about refused peers, which are not part of the measurement.
    need(freopen("/dev/null", "w", stderr) != NULL, "/dev/null");
    join(root, 0, port, key);
    gw_rpc_shutdown(root);
    exit(gw_exit_code(gw_scope_close(root)));
}

// ---- Cases --------------------------------------------------------------------------------------

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Adds the median or the 99th percentile of each batch.
static void time_batches(gw_scope *root, const _Atomic int *done, bool is_p99, samples *out) {
    static double us[BATCH];
    for (int batch = 0; gw_ok(root) && (batch < BATCHES_MIN || (done && *done < CONNECTIONS));
         batch++) {
        for (int i = 0; i < BATCH; i++) {
            gw_scope *s = gw_scope_open(root);
            double start = now_us();
            gw_rpc_sync(s, "w0", "bench_unauthenticated_null", 1);
            us[i] = now_us() - start;
            gw_scope_close_up(s);
        }
        qsort(us, BATCH, sizeof us[0], by_size);
        samples_add(out, us[is_p99 ? BATCH * 99 / 100 : BATCH / 2]);
    }
}

static void measure(target where, bool is_p99, samples *out) {
    char key[] = "/tmp/gw-bench-key-XXXXXX", line[SECRET_LINE_MAX];
    static opening s;
    gw_error error;
    int fd = mkstemp(key), port, elsewhere;
    need(fd >= 0 && !secret_make_line(line, &error) &&
             write(fd, line, strlen(line)) == (ssize_t)strlen(line),
         "a key");
    close(fd);
    setenv("GW_TRANSPORT", "tcp", 1);
    record_opening(key, &s);
    _Atomic int *done =
        mmap(NULL, sizeof *done, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    close(listen_somewhere(&port));
    int listener = listen_somewhere(&elsewhere);
    pid_t server = fork_child();
    if (server == 0) serve(port, key);
    gw_scope *root = gw_scope_open(NULL);
    join(root, 1, port, key);
    pid_t children[2] = { 0 };
    if (where == OTHER_SOCKET && (children[0] = fork_child()) == 0) answer_in_a_row(listener);
    if (where != NO_PEER && (children[1] = fork_child()) == 0)
        connect_in_a_row(where == OTHER_SOCKET ? elsewhere : port, &s, done);
    time_batches(root, where == NO_PEER ? NULL : done, is_p99, out);
    for (int i = 0; i < 2; i++)
        if (children[i]) kill(children[i], SIGKILL);
    gw_rpc_shutdown(root);
    if (gw_exit_code(gw_scope_close(root))) exit(1);
    unlink(key);
}

#define CASE(name, where, is_p99)                                                                  \
    static void name(gw_scope *root, samples *out) {                                               \
        (void)root;                                                                                \
        measure(where, is_p99, out);                                                               \
    }

CASE(median_alone, NO_PEER, false)
CASE(median_elsewhere, OTHER_SOCKET, false)
CASE(median_amid, MEMBER, false)
CASE(p99_alone, NO_PEER, true)
CASE(p99_elsewhere, OTHER_SOCKET, true)
CASE(p99_amid, MEMBER, true)

const bench_case refusal_cases[] = {
    { "unauthenticated.none_median", 0, median_alone },
    { "unauthenticated.other_socket_median", 0, median_elsewhere },
    { "unauthenticated.member_median", 0, median_amid },
    { "unauthenticated.none_p99", 0, p99_alone },
    { "unauthenticated.other_socket_p99", 0, p99_elsewhere },
    { "unauthenticated.member_p99", 0, p99_amid },
    { 0 },
};
