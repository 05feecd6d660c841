// After a handshake by certificates both ends have shown the names that they may have, and the client sends which one
// it is. docs/protocol/encryption.md is the specification.
#include "base/mutation.h"
#include "base/status.h"
#include "net/tls/certificate.h"
#include "net/tls/certificate_name.h"
#include "net/tls/tls_internal.h"

static const uint8_t welcome = 1;

// ---- The client ---------------------------------------------------------------------------------

static bool send_parties(tls_stream *t, int *out_code) {
    uint8_t out[TLS_PARTIES_MAX];
    size_t wrote, size = tls_parties_encode(&t->parties, out);
    int result = SSL_write_ex(t->ssl, out, size, &wrote);
    *out_code = result == 1 ? SSL_ERROR_NONE : SSL_get_error(t->ssl, result);
    return t->has_sent_parties = result == 1;
}

static bool receive_welcome(tls_stream *t, int *out_code) {
    uint8_t answer;
    size_t size;
    int result = SSL_read_ex(t->ssl, &answer, 1, &size);
    *out_code = result == 1 ? SSL_ERROR_NONE : SSL_get_error(t->ssl, result);
    return result == 1 && answer == welcome;
}

// ---- The server ---------------------------------------------------------------------------------

// TLS-13: the client's certificate must name the client's job, rank and name.
static gw_status check_client(const tls_stream *t, gw_error *error) {
    char name[CERTIFICATE_NAME_MAX];
    const party *from = &t->parties.client;
    X509 *x = SSL_get0_peer_certificate(t->ssl);
    if (has_mutation(MUTATION_CLIENT_UNNAMED) || (x && certificate_names(x, t->parties.job, from)))
        return GW_OK;
    certificate_first_name(x, name, sizeof name);
    return error_set(error, GW_MISMATCH,
                     "its certificate is for %.200s, but it claims to be %s (rank %d)", name,
                     from->name, (int)from->rank);
}

static bool receive_parties(tls_stream *t, int *out_code) {
    uint8_t in[TLS_PARTIES_MAX];
    size_t size, wrote;
    gw_error *refusal = &t->tls->refusal;
    int result = SSL_read_ex(t->ssl, in, sizeof in, &size);
    *out_code = result == 1 ? SSL_ERROR_NONE : SSL_get_error(t->ssl, result);
    if (result != 1) return false;
    gw_status status = GW_OK;
    if (!tls_parties_decode(in, size, &t->parties))
        status = error_set(refusal, GW_MISMATCH, "it does not report which worker it is");
    if (!status) status = tls_parties_check(&t->parties, t->tls->protection, refusal);
    if (!status) status = check_client(t, refusal);
    return !status && SSL_write_ex(t->ssl, &welcome, 1, &wrote) == 1;
}

bool tls_introduce(tls_stream *t, int *out_code) {
    if (t->is_server) return receive_parties(t, out_code);
    if (!t->has_sent_parties && !send_parties(t, out_code)) return false;
    return receive_welcome(t, out_code);
}
