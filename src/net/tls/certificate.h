// The certificate of a worker, issued by the CA of its job, and the CAs that it trusts. With certificates no member can
// impersonate another. docs/protocol/encryption.md is the specification; `gradwire ca` and `gradwire key --ca` make the
// files that are read here:
//
//     -----BEGIN PRIVATE KEY-----        of the worker
//     -----BEGIN CERTIFICATE-----        its own, which must be first
//     -----BEGIN CERTIFICATE-----        of the CA; and of a second one while CAs are changed
//
// Ownership: counted; each open or retain needs a close. Threads: not changed once it is open.
#ifndef NET_TLS_CERTIFICATE_H
#define NET_TLS_CERTIFICATE_H

#include "net/tls/protection.h"

#include <openssl/ssl.h>

enum { CERTIFICATE_CAS_MAX = 2 };

typedef struct certificate certificate;

// Whether |text| holds a certificate, and not lines of keys.
bool certificate_is_text(const char *text);

// Parses |text|; |what| is its origin, "the file w0.pem"; the private key is written to |out_key|. INVALID.
gw_status certificate_open_text(const char *text, const char *what, certificate **out,
                                uint8_t out_key[SECRET_PRIVATE_BYTES], gw_error *error);
certificate *certificate_retain(certificate *c);
void certificate_close(certificate *c);  // NULL is fine

// Whether |x| names |p|, a worker of |job|.
bool certificate_names(const X509 *x, const char *job, const party *p);
bool certificate_names_rank(const X509 *x, const char *job, uint32_t rank);  // with any name
// The first name in |x|, for error texts.
void certificate_first_name(const X509 *x, char *out, size_t room);
// MISMATCH if |self| has a certificate that does not name itself (TLS-16); the error contains its name.
gw_status certificate_check_own(const protection *self, gw_error *error);

// Makes |context| accept certificates of the job's CAs alone; false: NO_MEMORY or SYSTEM.
bool certificate_trust(const certificate *c, SSL_CTX *context);
// Makes |ssl| present the own certificate. The private key is OpenSSL's until SSL_certs_clear.
bool certificate_show(const secret *s, SSL *ssl);

#endif
