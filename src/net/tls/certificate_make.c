#include "net/tls/certificate_make.h"

#include "base/status.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

enum { EARLIER_S = 86400 };  // for clocks that are behind

static bool add_extension(X509 *x, int nid, const char *text) {
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, NULL, nid, text);
    bool done = e && X509_add_ext(x, e, -1) == 1;
    X509_EXTENSION_free(e);
    return done;
}

static bool add_names(X509 *x, const certificate_name *names, int count) {
    GENERAL_NAMES *all = sk_GENERAL_NAME_new_null();
    bool done = all;
    for (int i = 0; done && i < count; i++) {
        char uri[CERTIFICATE_NAME_MAX];
        certificate_name_write(&names[i], uri);
        GENERAL_NAME *g = GENERAL_NAME_new();
        ASN1_IA5STRING *s = ASN1_IA5STRING_new();
        done = g && s && ASN1_STRING_set(s, uri, -1) == 1 && sk_GENERAL_NAME_push(all, g) > 0;
        if (done) {
            GENERAL_NAME_set0_value(g, GEN_URI, s);
        } else {
            GENERAL_NAME_free(g);
            ASN1_IA5STRING_free(s);
        }
    }
    done = done && X509_add1_ext_i2d(x, NID_subject_alt_name, all, 0, 0) == 1;
    GENERAL_NAMES_free(all);
    return done;
}

// The common part of all certificates. A random part of their names distinguishes CAs.
static bool fill(X509 *x, EVP_PKEY *key, const char *name, int days) {
    uint64_t serial;
    char subject[64];
    if (RAND_bytes((uint8_t *)&serial, sizeof serial) != 1) return false;
    serial >>= 1;
    snprintf(subject, sizeof subject, "%s %016llx", name, (unsigned long long)serial);
    return X509_set_version(x, X509_VERSION_3) == 1 &&
           ASN1_INTEGER_set_uint64(X509_get_serialNumber(x), serial) == 1 &&
           X509_gmtime_adj(X509_getm_notBefore(x), -EARLIER_S) &&
           X509_time_adj_ex(X509_getm_notAfter(x), days, 0, NULL) &&
           X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
                                      (const unsigned char *)subject, -1, -1, 0) == 1 &&
           X509_set_pubkey(x, key) == 1;
}

// |key| may be NULL. False if it does not fit.
static bool write_text(EVP_PKEY *key, X509 *first, X509 *second, char out[SECRET_TEXT_MAX]) {
    BIO *b = BIO_new(BIO_s_secmem());
    bool done = b && (!key || PEM_write_bio_PrivateKey(b, key, NULL, NULL, 0, NULL, NULL) == 1) &&
                PEM_write_bio_X509(b, first) == 1 &&
                (!second || PEM_write_bio_X509(b, second) == 1);
    char *text;
    long size = done ? BIO_get_mem_data(b, &text) : 0;
    done = done && size > 0 && size < SECRET_TEXT_MAX;
    if (done) {
        memcpy(out, text, (size_t)size);
        out[size] = '\0';
    }
    BIO_free(b);
    return done;
}

gw_status certificate_make_ca(int days, char out[SECRET_TEXT_MAX], gw_error *error) {
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    X509 *x = X509_new();
    bool done = key && x && fill(x, key, "gradwire CA", days) &&
                X509_set_issuer_name(x, X509_get_subject_name(x)) == 1 &&
                add_extension(x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
                add_extension(x, NID_key_usage, "critical,keyCertSign") &&
                X509_sign(x, key, NULL) > 0 && write_text(key, x, NULL, out);
    X509_free(x);
    EVP_PKEY_free(key);
    return done ? GW_OK : error_set(error, GW_SYSTEM, "OpenSSL cannot make a CA");
}

// ---- Of workers ---------------------------------------------------------------------------------
typedef struct authority {
    EVP_PKEY *key;
    X509 *certificate;
} authority;

static void close_authority(authority *a) {
    EVP_PKEY_free(a->key);
    X509_free(a->certificate);
}

static gw_status open_authority(const char *text, const char *what, authority *out,
                                gw_error *error) {
    BIO *k = BIO_new_mem_buf(text, -1), *c = BIO_new_mem_buf(text, -1);
    *out = (authority){ 0 };
    if (k) out->key = PEM_read_bio_PrivateKey(k, NULL, NULL, (void *)"");
    if (c) out->certificate = PEM_read_bio_X509(c, NULL, NULL, (void *)"");
    BIO_free(k);
    BIO_free(c);
    bool is_one = out->key && out->certificate && X509_check_ca(out->certificate) &&
                  X509_check_private_key(out->certificate, out->key) == 1;
    ERR_clear_error();
    if (is_one) return GW_OK;
    close_authority(out);
    return error_set(error, GW_INVALID, "%s is not a CA of `gradwire ca`", what);
}

gw_status certificate_make(const char *ca, const char *what, const certificate_name *names,
                           int count, int days, char out[SECRET_TEXT_MAX], gw_error *error) {
    authority by;
    gw_status status = open_authority(ca, what, &by, error);
    if (status) return status;
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    X509 *x = X509_new();
    bool made = key && x && fill(x, key, "gradwire worker", days) &&
                X509_set_issuer_name(x, X509_get_subject_name(by.certificate)) == 1 &&
                add_extension(x, NID_basic_constraints, "critical,CA:FALSE") &&
                add_extension(x, NID_key_usage, "critical,digitalSignature") &&
                add_names(x, names, count) && X509_sign(x, by.key, NULL) > 0;
    int size = made ? i2d_X509(x, NULL) : 0;
    if (!made) {
        status = error_set(error, GW_SYSTEM, "OpenSSL cannot make a certificate");
    } else if (size > CERTIFICATE_BYTES_MAX || !write_text(key, x, by.certificate, out)) {
        status = error_set(error, GW_LIMIT,
                           "a certificate with %d names would have %d bytes, but at most %d are "
                           "allowed: use a pattern that names many ranks, such as trainer%%d=1-200",
                           count, size, CERTIFICATE_BYTES_MAX);
    }
    X509_free(x);
    EVP_PKEY_free(key);
    close_authority(&by);
    return status;
}
