// What all encrypted streams of a worker share: OpenSSL's settings, and which peers are admitted.
#include "net/tls/tls.h"

#include <assert.h>
#include <openssl/bio.h>
#include <string.h>

#include "base/mem.h"
#include "base/mutation.h"
#include "base/status.h"
#include "net/tls/certificate.h"
#include "net/tls/certificate_name.h"
#include "net/tls/tls_internal.h"

#define REKEY_BYTES ((uint64_t)1 << 36)  // TLS-10

static const unsigned char psk_cipher[2] = { 0x13, 0x01 };  // TLS_AES_128_GCM_SHA256

// ---- The pre-shared key -------------------------------------------------------------------------

static SSL_SESSION *make_psk_session(SSL *ssl, const uint8_t psk[TLS_PSK_BYTES]) {
    SSL_SESSION *session = SSL_SESSION_new();
    if (session && SSL_SESSION_set1_master_key(session, psk, TLS_PSK_BYTES) == 1 &&
        SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, psk_cipher)) == 1 &&
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1)
        return session;
    SSL_SESSION_free(session);
    return NULL;
}

static int offer_identity(SSL *ssl, const EVP_MD *digest, const unsigned char **out_id,
                          size_t *out_size, SSL_SESSION **out) {
    tls_stream *t = SSL_get_app_data(ssl);
    (void)digest;
    *out_id = t->identity.bytes;
    *out_size = t->identity.size;
    *out = make_psk_session(ssl, t->psk);
    return *out != NULL;
}

// Without a session the handshake ends as with any other failure (TLS-7).
static int find_identity(SSL *ssl, const unsigned char *id, size_t size, SSL_SESSION **out) {
    tls_stream *t = SSL_get_app_data(ssl);
    const protection *p = t->tls->protection;
    *out = NULL;
    gw_error *refusal = &t->tls->refusal;
    gw_status status = tls_identity_open(p->secret, id, size, &t->parties, t->psk, refusal);
    if (!status) status = tls_parties_check(&t->parties, p, refusal);
    if (!status) *out = make_psk_session(ssl, t->psk);
    return 1;
}

// ---- Certificates -------------------------------------------------------------------------------

bool tls_has_certificates(const tls_stream *s) {
    return s->tls->protection->secret->certificate != NULL;
}

static gw_status check_trust(X509_STORE_CTX *context, gw_error *error) {
    if (X509_verify_cert(context) == 1 || has_mutation(MUTATION_ANY_CA)) return GW_OK;
    return error_set(error, GW_MISMATCH, "its certificate is not one of this job: %s",
                     X509_verify_cert_error_string(X509_STORE_CTX_get_error(context)));
}

// TLS-12; a server receives the client's parties later.
static gw_status check_server(const tls_stream *t, const X509 *x, gw_error *error) {
    char name[CERTIFICATE_NAME_MAX];
    const party *to = &t->parties.server;
    if (t->is_server || has_mutation(MUTATION_SERVER_UNNAMED)) return GW_OK;
    bool is_host = t->parties.purpose == TLS_STORE && t->tls->protection->meets_at_rank_0;
    if (is_host ? certificate_names_rank(x, t->parties.job, 0)
                : certificate_names(x, t->parties.job, to))
        return GW_OK;
    certificate_first_name(x, name, sizeof name);
    return error_set(error, GW_MISMATCH,
                     "its certificate is for %.200s, but %s (rank %d) was expected", name,
                     is_host ? "the host of the store" : to->name, is_host ? 0 : (int)to->rank);
}

// The other end receives the same alert for all failures.
static int verify(X509_STORE_CTX *context, void *unused) {
    (void)unused;
    const SSL *ssl = X509_STORE_CTX_get_ex_data(context, SSL_get_ex_data_X509_STORE_CTX_idx());
    tls_stream *t = SSL_get_app_data(ssl);
    gw_error *refusal = &t->tls->refusal;
    gw_status status = check_trust(context, refusal);
    if (!status) status = check_server(t, X509_STORE_CTX_get0_cert(context), refusal);
    X509_STORE_CTX_set_error(context, status ? X509_V_ERR_APPLICATION_VERIFICATION : X509_V_OK);
    return !status;
}

// ---- Bytes below --------------------------------------------------------------------------------

static int write_below(BIO *b, const char *data, size_t size, size_t *out_size) {
    tls_stream *t = BIO_get_data(b);
    tls *shared = t->tls;
    BIO_clear_retry_flags(b);
    if (size > sizeof shared->out - shared->out_size) return 0;
    memcpy(shared->out + shared->out_size, data, size);
    shared->out_size += size;
    *out_size = size;
    return 1;
}

static int read_below(BIO *b, char *into, size_t size, size_t *out_size) {
    tls_stream *t = BIO_get_data(b);
    BIO_clear_retry_flags(b);
    if (t->in_size == 0) {
        BIO_set_retry_read(b);
        return 0;
    }
    if (size > t->in_size) size = t->in_size;
    memcpy(into, t->in, size);
    t->in += size;
    t->in_size -= size;
    *out_size = size;
    return 1;
}

static long control(BIO *b, int command, long number, void *pointer) {
    (void)b;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *make_method(void) {
    int index = BIO_get_new_index();
    BIO_METHOD *m = index > 0 ? BIO_meth_new(index | BIO_TYPE_SOURCE_SINK, "gradwire") : NULL;
    if (!m) return NULL;
    BIO_meth_set_write_ex(m, write_below);
    BIO_meth_set_read_ex(m, read_below);
    BIO_meth_set_ctrl(m, control);
    return m;
}

SSL *tls_new_session(tls *t, tls_stream *s) {
    SSL *ssl = SSL_new(t->context);
    BIO *b = ssl ? BIO_new(t->method) : NULL;
    if (!b) {
        SSL_free(ssl);
        return NULL;
    }
    BIO_set_data(b, s);
    BIO_set_init(b, 1);
    SSL_set_bio(ssl, b, b);
    SSL_set_app_data(ssl, s);
    if (s->is_server) {
        SSL_set_accept_state(ssl);
    } else {
        SSL_set_connect_state(ssl);
        SSL_set_verify(ssl, SSL_VERIFY_PEER,
                       NULL);  // with a key no certificate is trusted
    }
    if (!tls_has_certificates(s) || certificate_show(t->protection->secret, ssl)) return ssl;
    SSL_free(ssl);
    return NULL;
}

// ---- Life ---------------------------------------------------------------------------------------

static bool set_up_authentication(SSL_CTX *c, const secret *s) {
    if (!s->certificate) {
        SSL_CTX_set_psk_use_session_callback(c, offer_identity);
        SSL_CTX_set_psk_find_session_callback(c, find_identity);
        return true;
    }
    SSL_CTX_set_verify(c, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_cert_verify_callback(c, verify, NULL);
    return certificate_trust(s->certificate, c);
}

static bool set_up(SSL_CTX *c) {
    SSL_CTX_set_mode(c, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                            SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_options(c, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_clear_options(c, SSL_OP_ENABLE_MIDDLEBOX_COMPAT);
    SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
    return SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_max_proto_version(c, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_num_tickets(c, 0) == 1 && SSL_CTX_set1_groups_list(c, "X25519") == 1 &&
           SSL_CTX_set_ciphersuites(c, "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256") == 1;
}

gw_status tls_open(tls_options options, tls **out, gw_error *error) {
    assert(options.plain_answer_size <= TLS_ANSWER_MAX);
    tls *t = mem_alloc(sizeof *t);
    if (!t) return error_set(error, GW_NO_MEMORY, "no memory for encryption");
    memset(t, 0, offsetof(tls, in));
    list_init(&t->streams);
    t->env = options.env;
    t->protection = options.protection;
    t->rekey_bytes = options.rekey_bytes ? options.rekey_bytes : REKEY_BYTES;
    t->plain_hello = options.plain_hello;
    t->answer_size = options.plain_answer_size;
    if (t->answer_size) memcpy(t->answer, options.plain_answer, t->answer_size);
    t->method = make_method();
    t->context = SSL_CTX_new(TLS_method());
    if (!t->method || !t->context || !set_up(t->context) ||
        !set_up_authentication(t->context, options.protection->secret)) {
        tls_close(t);
        return error_set(error, GW_SYSTEM, "this OpenSSL does not support TLS 1.3 with X25519");
    }
    *out = t;
    return GW_OK;
}

void tls_close(tls *t) {
    if (!t) return;
    while (!list_is_empty(&t->streams))
        tls_apply(list_entry(t->streams.next, tls_stream, link), TLS_ABANDONED);
    SSL_CTX_free(t->context);
    BIO_meth_free(t->method);
    mem_free(t);
}
