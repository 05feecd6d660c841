#include "net/tls_identity.h"

#include "base/bytes.h"
#include "base/mutation.h"
#include "base/status.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <string.h>

enum { VERSION = 1, SEAL_KEY_BYTES = 32, SEAL_NONCE_BYTES = 12 };

enum { HEAD_BYTES = SECRET_ID_BYTES + TLS_SALT_BYTES };

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

static bool derive_seal(const secret_key *key, const uint8_t *salt,
                        uint8_t out[SEAL_KEY_BYTES + SEAL_NONCE_BYTES]) {
    static const char label[] = "gradwire identity";
    return secret_derive(key, (secret_info){ salt, TLS_SALT_BYTES },
                         (secret_info){ label, sizeof label - 1 }, out,
                         SEAL_KEY_BYTES + SEAL_NONCE_BYTES);
}

// ---- Sealing ------------------------------------------------------------------------------------

// |out| has room for |size| bytes; the head is authenticated with them. Sealing writes |tag|,
// opening wants it.
static bool cipher(bool seals, const secret_key *key, const uint8_t head[HEAD_BYTES],
                   const uint8_t *in, size_t size, uint8_t *out, uint8_t tag[TLS_TAG_BYTES]) {
    uint8_t seal[SEAL_KEY_BYTES + SEAL_NONCE_BYTES];
    int length;
    EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    bool done =
        c && derive_seal(key, head + SECRET_ID_BYTES, seal) &&
        EVP_CipherInit_ex(c, EVP_aes_256_gcm(), NULL, seal, seal + SEAL_KEY_BYTES, seals) == 1 &&
        (seals || EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_SET_TAG, TLS_TAG_BYTES, tag) == 1) &&
        EVP_CipherUpdate(c, NULL, &length, head, HEAD_BYTES) == 1 &&
        EVP_CipherUpdate(c, out, &length, in, (int)size) == 1 &&
        EVP_CipherFinal_ex(c, out + length, &length) == 1 &&
        (!seals || EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_GET_TAG, TLS_TAG_BYTES, tag) == 1);
    EVP_CIPHER_CTX_free(c);
    OPENSSL_cleanse(seal, sizeof seal);
    return done;
}

bool tls_identity_seal(const secret_key *key, const tls_parties *parties, tls_identity *out,
                       uint8_t out_psk[TLS_PSK_BYTES]) {
    uint8_t plain[TLS_PARTIES_MAX];
    uint8_t *salt = out->bytes + SECRET_ID_BYTES, *sealed = out->bytes + HEAD_BYTES;
    size_t size = tls_parties_encode(parties, plain);
    memcpy(out->bytes, key->id, SECRET_ID_BYTES);
    out->size = HEAD_BYTES + size + TLS_TAG_BYTES;
    return RAND_bytes(salt, TLS_SALT_BYTES) == 1 &&
           cipher(true, key, out->bytes, plain, size, sealed, sealed + size) &&
           tls_derive_psk(key, salt, parties, out_psk);
}

gw_status tls_identity_open(const secret *s, const uint8_t *in, size_t size, tls_parties *out,
                            uint8_t out_psk[TLS_PSK_BYTES], gw_error *error) {
    uint8_t plain[TLS_PARTIES_MAX], tag[TLS_TAG_BYTES];
    if (size < HEAD_BYTES + TLS_TAG_BYTES || size > TLS_IDENTITY_MAX)
        return error_set(error, GW_MISMATCH, "it has no key of a job");
    size_t sealed = size - HEAD_BYTES - TLS_TAG_BYTES;
    const secret_key *key = secret_find(s, in);
    // An unknown key takes as long as a wrong one.
    const secret_key *tried = key ? key : &s->keys[0];
    memcpy(tag, in + size - TLS_TAG_BYTES, sizeof tag);
    bool opened = cipher(false, tried, in, in + HEAD_BYTES, sealed, plain, tag);
    if (!key || !opened || !tls_parties_decode(plain, sealed, out) ||
        !tls_derive_psk(key, in + SECRET_ID_BYTES, out, out_psk))
        return error_set(error, GW_MISMATCH, "it has another key");
    return GW_OK;
}

// ---- Checking -----------------------------------------------------------------------------------

gw_status tls_parties_check(const tls_parties *parties, const protection *self, gw_error *error) {
    const party *me = &self->self, *to = &parties->server;
    if (has_mutation(MUTATION_IDENTITY_UNCHECKED)) return GW_OK;
    if (strcmp(parties->job, self->job) != 0)
        return error_set(error, GW_MISMATCH, "it is of the job \"%s\", not of \"%s\"", parties->job,
                         self->job);
    if (parties->client.incarnation == me->incarnation)
        return error_set(error, GW_MISMATCH, "what this worker has said came back to it");
    if (parties->purpose == TLS_STORE) return GW_OK;
    bool knows_rank = me->rank != PARTY_RANK_UNKNOWN;  // and its name, which may have it
    if (to->incarnation != me->incarnation ||
        (knows_rank && (to->rank != me->rank || strcmp(to->name, me->name) != 0)))
        return error_set(error, GW_MISMATCH, "%s (rank %u) looks for another worker, %s (rank %u)",
                         parties->client.name, parties->client.rank, to->name, to->rank);
    return GW_OK;
}
