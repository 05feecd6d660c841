#include "net/tls/tls_identity.h"

#include "base/bytes.h"
#include "base/mutation.h"
#include "base/status.h"

#include <string.h>

enum { VERSION = 1 };

_Static_assert(2 + 4 + JOB_ID_MAX + 2 * (4 + LIMIT_NAME_BYTES + 12) <= TLS_PARTIES_MAX,
               "the parties fit");

// ---- Parties as bytes ---------------------------------------------------------------------------

typedef struct writer {
    uint8_t *at;
} writer;

static void put(writer *w, const void *data, size_t size) {
    memcpy(w->at, data, size);
    w->at += size;
}

static void put_text(writer *w, const char *text, size_t max) {
    uint32_t size = (uint32_t)strnlen(text, max);
    put(w, &size, sizeof size);
    put(w, text, size);
}

static void put_party(writer *w, const party *p) {
    put_text(w, p->name, sizeof p->name - 1);
    put(w, &p->rank, sizeof p->rank);
    put(w, &p->incarnation, sizeof p->incarnation);
}

size_t tls_parties_encode(const tls_parties *p, uint8_t out[TLS_PARTIES_MAX]) {
    writer w = { out };
    uint8_t head[2] = { VERSION, (uint8_t)p->purpose };
    put(&w, head, sizeof head);
    put_text(&w, p->job, sizeof p->job - 1);
    put_party(&w, &p->client);
    put_party(&w, &p->server);
    return (size_t)(w.at - out);
}

static void read_party(reader *r, party *out) {
    reader_text(r, out->name, sizeof out->name);
    out->rank = reader_u32(r);
    out->incarnation = reader_u64(r);
}

bool tls_parties_decode(const uint8_t *in, size_t size, tls_parties *out) {
    *out = (tls_parties){ 0 };
    reader r = reader_of(in, size);
    uint8_t version = reader_u8(&r), purpose = reader_u8(&r);
    out->purpose = (tls_purpose)purpose;
    reader_text(&r, out->job, sizeof out->job);
    read_party(&r, &out->client);
    read_party(&r, &out->server);
    return !r.failed && reader_left(&r) == 0 && version == VERSION &&
           (purpose == TLS_SESSION || purpose == TLS_STORE);
}

// ---- Keys ---------------------------------------------------------------------------------------

// "The PSK of a connection is HKDF(K, salt, `gradwire psk` and the parties)."
bool tls_derive_psk(const secret_key *key, const uint8_t salt[TLS_SALT_BYTES],
                    const tls_parties *parties, uint8_t out[TLS_PSK_BYTES]) {
    static const char label[] = "gradwire psk";
    uint8_t info[sizeof label - 1 + TLS_PARTIES_MAX];
    tls_parties bound = *parties;
    if (has_mutation(MUTATION_KEY_WITHOUT_ROLE) &&
        bound.client.incarnation > bound.server.incarnation) {
        bound.client = parties->server;
        bound.server = parties->client;
    }
    memcpy(info, label, sizeof label - 1);
    size_t size = sizeof label - 1 + tls_parties_encode(&bound, info + sizeof label - 1);
    return secret_derive(key, (secret_info){ salt, TLS_SALT_BYTES }, (secret_info){ info, size },
                         out, TLS_PSK_BYTES);
}

// ---- Sealing ------------------------------------------------------------------------------------

static const char label[] = "gradwire identity";
static const secret_info purpose = { label, sizeof label - 1 };

bool tls_identity_seal(const secret_key *key, const tls_parties *parties, tls_identity *out,
                       uint8_t out_psk[TLS_PSK_BYTES]) {
    uint8_t plain[TLS_PARTIES_MAX];
    size_t size = tls_parties_encode(parties, plain);
    out->size = size + SECRET_SEAL_BYTES;
    return secret_seal(key, purpose, plain, size, out->bytes) &&
           tls_derive_psk(key, out->bytes + SECRET_ID_BYTES, parties, out_psk);
}

gw_status tls_identity_open(const secret *s, const uint8_t *in, size_t size, tls_parties *out,
                            uint8_t out_psk[TLS_PSK_BYTES], gw_error *error) {
    uint8_t plain[TLS_PARTIES_MAX];
    if (size < SECRET_SEAL_BYTES || size > TLS_IDENTITY_MAX)
        return error_set(error, GW_MISMATCH, "it has no job key");
    const secret_key *key = secret_unseal(s, purpose, in, size, plain);
    if (!key || !tls_parties_decode(plain, size - SECRET_SEAL_BYTES, out) ||
        !tls_derive_psk(key, in + SECRET_ID_BYTES, out, out_psk))
        return error_set(error, GW_MISMATCH, "it has another key");
    return GW_OK;
}

// ---- Checking -----------------------------------------------------------------------------------

gw_status tls_parties_check(const tls_parties *parties, const protection *self, gw_error *error) {
    const party *me = &self->self, *to = &parties->server;
    if (has_mutation(MUTATION_IDENTITY_UNCHECKED)) return GW_OK;
    if (strcmp(parties->job, self->job) != 0)
        return error_set(error, GW_MISMATCH, "it belongs to job \"%s\", not to job \"%s\"",
                         parties->job, self->job);
    if (parties->client.incarnation == me->incarnation)
        return error_set(error, GW_MISMATCH,
                         "the peer has sent this worker's own first message back");
    if (parties->purpose == TLS_STORE) return GW_OK;
    bool has_rank = me->rank != PARTY_RANK_UNKNOWN;  // and its name, which may contain the rank
    if (to->incarnation != me->incarnation ||
        (has_rank && (to->rank != me->rank || strcmp(to->name, me->name) != 0)))
        return error_set(error, GW_MISMATCH,
                         "%s (rank %u) has connected to this worker, but expects %s (rank %u)",
                         parties->client.name, parties->client.rank, to->name, to->rank);
    return GW_OK;
}
