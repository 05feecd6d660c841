#include "net/tls/certificate.h"

#include "base/mem.h"
#include "base/status.h"
#include "net/tls/certificate_name.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct certificate {
    _Atomic uint32_t count;
    X509 *own;
    int ca_count;
    X509 *cas[CERTIFICATE_CAS_MAX];
};

bool certificate_is_text(const char *text) {
    return strstr(text, "-----BEGIN ") != NULL;
}

// ---- Reading ------------------------------------------------------------------------------------

// Our files are not encrypted: no password is requested.
static int refuse_password(char *out, int room, int writes, void *user) {
    (void)out, (void)room, (void)writes, (void)user;
    return -1;
}

static gw_status read_key(const char *text, const char *what, uint8_t out[SECRET_PRIVATE_BYTES],
                          gw_error *error) {
    BIO *b = BIO_new_mem_buf(text, -1);
    EVP_PKEY *key = b ? PEM_read_bio_PrivateKey(b, NULL, refuse_password, NULL) : NULL;
    size_t size = SECRET_PRIVATE_BYTES;
    gw_status status = GW_OK;
    if (!key) {
        status = error_set(error, GW_INVALID,
                           "%s contains no private key: make it with `gradwire key --ca`", what);
    } else if (EVP_PKEY_get_id(key) != EVP_PKEY_ED25519 ||
               EVP_PKEY_get_raw_private_key(key, out, &size) != 1) {
        status = error_set(error, GW_INVALID, "the private key in %s is not an Ed25519 key", what);
    }
    EVP_PKEY_free(key);
    BIO_free(b);
    return status;
}

static gw_status read_certificates(const char *text, const char *what, certificate *c,
                                   gw_error *error) {
    BIO *b = BIO_new_mem_buf(text, -1);
    gw_status status = GW_OK;
    if (b) c->own = PEM_read_bio_X509(b, NULL, refuse_password, NULL);
    if (!c->own) status = error_set(error, GW_INVALID, "%s has no certificate in it", what);
    for (X509 *ca; !status && (ca = PEM_read_bio_X509(b, NULL, refuse_password, NULL));) {
        if (c->ca_count < CERTIFICATE_CAS_MAX) {
            c->cas[c->ca_count++] = ca;
        } else {
            X509_free(ca);
            status = error_set(error, GW_INVALID, "%s has certificates of more than %d CAs", what,
                               CERTIFICATE_CAS_MAX);
        }
    }
    ERR_clear_error();  // of the end of the file
    BIO_free(b);
    return status;
}

// Reports now what would fail later.
static gw_status check(certificate *c, const uint8_t private_key[SECRET_PRIVATE_BYTES],
                       const char *what, gw_error *error) {
    char name[CERTIFICATE_NAME_MAX];
    EVP_PKEY *key =
        EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, private_key, SECRET_PRIVATE_BYTES);
    bool fits = key && X509_check_private_key(c->own, key) == 1;
    EVP_PKEY_free(key);
    ERR_clear_error();
    if (X509_check_ca(c->own))
        return error_set(
            error, GW_INVALID,
            "%s is the file of the CA; workers need a file made from it by `gradwire key --ca`",
            what);
    if (!fits)
        return error_set(error, GW_INVALID,
                         "private key and certificate in %s do not belong together", what);
    certificate_first_name(c->own, name, sizeof name);
    if (!*name)
        return error_set(error, GW_INVALID, "the certificate in %s is not for a worker of gradwire",
                         what);
    if (!c->ca_count)
        return error_set(error, GW_INVALID,
                         "%s has no CA certificate after the worker's certificate", what);
    for (int i = 0; i < c->ca_count; i++)
        if (!X509_check_ca(c->cas[i]))
            return error_set(error, GW_INVALID,
                             "certificate %d in %s is not a CA certificate: only the first "
                             "certificate may be that of the worker",
                             i + 2, what);
    if (X509_cmp_current_time(X509_get0_notAfter(c->own)) < 0)
        return error_set(error, GW_INVALID, "the certificate in %s has expired", what);
    return GW_OK;
}

gw_status certificate_open_text(const char *text, const char *what, certificate **out,
                                uint8_t out_key[SECRET_PRIVATE_BYTES], gw_error *error) {
    certificate *c = mem_calloc(sizeof *c);
    if (!c) return error_set(error, GW_NO_MEMORY, "no memory for a certificate");
    c->count = 1;
    gw_status status = read_key(text, what, out_key, error);
    if (!status) status = read_certificates(text, what, c, error);
    if (!status) status = check(c, out_key, what, error);
    if (status) {
        certificate_close(c);
    } else {
        *out = c;
    }
    return status;
}

certificate *certificate_retain(certificate *c) {
    if (c) atomic_fetch_add(&c->count, 1);
    return c;
}

void certificate_close(certificate *c) {
    if (!c || atomic_fetch_sub(&c->count, 1) > 1) return;
    X509_free(c->own);
    for (int i = 0; i < c->ca_count; i++) X509_free(c->cas[i]);
    mem_free(c);
}

// ---- Names --------------------------------------------------------------------------------------

// Calls |look| with each name, until it returns true.
static bool any_name(const X509 *x, bool (*look)(const certificate_name *n, void *user),
                     void *user) {
    GENERAL_NAMES *all = X509_get_ext_d2i(x, NID_subject_alt_name, NULL, NULL);
    bool found = false;
    for (int i = 0; !found && i < sk_GENERAL_NAME_num(all); i++) {
        int kind;
        char uri[CERTIFICATE_NAME_MAX];
        const ASN1_STRING *s = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(all, i), &kind);
        if (kind != GEN_URI || (size_t)ASN1_STRING_length(s) >= sizeof uri) continue;
        size_t size = (size_t)ASN1_STRING_length(s);
        memcpy(uri, ASN1_STRING_get0_data(s), size);
        uri[size] = '\0';
        certificate_name n;
        found = strlen(uri) == size && certificate_name_parse(uri, &n) && look(&n, user);
    }
    GENERAL_NAMES_free(all);
    return found;
}

typedef struct wanted {
    const char *job;
    const party *party;
} wanted;

static bool is_wanted(const certificate_name *n, void *user) {
    const wanted *w = user;
    return certificate_name_fits(n, w->job, w->party);
}

bool certificate_names(const X509 *x, const char *job, const party *p) {
    return any_name(x, is_wanted, &(wanted){ job, p });
}

static bool has_rank(const certificate_name *n, void *user) {
    const wanted *w = user;
    const party any_rank = { .rank = PARTY_RANK_UNKNOWN };
    return certificate_name_fits(n, w->job, &any_rank) && w->party->rank >= n->first_rank &&
           w->party->rank <= n->last_rank;
}

bool certificate_names_rank(const X509 *x, const char *job, uint32_t rank) {
    return any_name(x, has_rank, &(wanted){ job, &(party){ .rank = rank } });
}

static bool write_name(const certificate_name *n, void *user) {
    certificate_name_write(n, user);
    return true;
}

void certificate_first_name(const X509 *x, char *out, size_t room) {
    char name[CERTIFICATE_NAME_MAX] = "";
    any_name(x, write_name, name);
    snprintf(out, room, "%s", name);
}

gw_status certificate_check_own(const protection *self, gw_error *error) {
    char name[CERTIFICATE_NAME_MAX];
    const party *me = &self->self;
    const certificate *c = self->secret ? self->secret->certificate : NULL;
    if (!c || certificate_names(c->own, self->job, me)) return GW_OK;
    certificate_first_name(c->own, name, sizeof name);
    return error_set(
        error, GW_MISMATCH,
        "the certificate of this worker is for %.200s, but the worker is %s, rank %d of job "
        "\"%s\"",
        name, me->name, (int)me->rank, self->job);
}

// ---- TLS ----------------------------------------------------------------------------------------

bool certificate_trust(const certificate *c, SSL_CTX *context) {
    X509_STORE *trusted = X509_STORE_new();
    bool done = trusted;
    for (int i = 0; done && i < c->ca_count; i++)
        done = X509_STORE_add_cert(trusted, c->cas[i]) == 1;
    if (!done) {
        X509_STORE_free(trusted);
        return false;
    }
    X509_VERIFY_PARAM_set_depth(X509_STORE_get0_param(trusted), 0);  // none between CA and worker
    SSL_CTX_set_cert_store(context, trusted);
    SSL_CTX_set_verify_depth(context, 0);
    return SSL_CTX_set1_sigalgs_list(context, "ed25519") == 1;
}

bool certificate_show(const secret *s, SSL *ssl) {
    EVP_PKEY *key =
        EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, s->private_key, SECRET_PRIVATE_BYTES);
    bool done = key && SSL_use_certificate(ssl, s->certificate->own) == 1 &&
                SSL_use_PrivateKey(ssl, key) == 1;
    EVP_PKEY_free(key);
    return done;
}
