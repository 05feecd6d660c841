// The certificate of a worker, by the CA of its job, and the CAs that it trusts. With it no member can
// pass for another. docs/protocol/encryption.md is the specification; `gradwire ca` and `gradwire key
// --ca` make what is read here:
//
//     -----BEGIN PRIVATE KEY-----        of the worker
//     -----BEGIN CERTIFICATE-----        its own, which comes first
//     -----BEGIN CERTIFICATE-----        of the CA; and of a second one while CAs are changed
//
// Ownership: counted; whoever opens or retains one closes it. Threads: not changed once it is open.
#ifndef NET_TLS_CERTIFICATE_H
#define NET_TLS_CERTIFICATE_H

#include "net/tls/protection.h"

#include <openssl/ssl.h>

enum { CERTIFICATE_CAS_MAX = 2 };

typedef struct certificate certificate;

// Whether |text| is of this kind, and not lines of keys.
bool certificate_is_text(const char *text);

// Reads |text|, which comes from |what|, "the file w0.pem"; the private key goes to |out_key|. INVALID.
gw_status certificate_open_text(const char *text, const char *what, certificate **out,
                                uint8_t out_key[SECRET_PRIVATE_BYTES], gw_error *error);
certificate *certificate_retain(certificate *c);
void certificate_close(certificate *c);  // NULL is fine

// Whether |x| names |p|, a worker of |job|.
bool certificate_names(const X509 *x, const char *job, const party *p);
bool certificate_names_rank(const X509 *x, const char *job, uint32_t rank);  // by whatever name
// The first that |x| names, for sentences.
void certificate_first_name(const X509 *x, char *out, size_t room);
// Whether |self| has a certificate that does not name itself (TLS-16): MISMATCH says whom it names.
gw_status certificate_check_own(const protection *self, gw_error *error);

// Lets |context| take certificates of the job's CAs alone; NO_MEMORY or SYSTEM as false.
bool certificate_trust(const certificate *c, SSL_CTX *context);
// Lets |ssl| show the own one. The private key is OpenSSL's then, until SSL_certs_clear.
bool certificate_show(const secret *s, SSL *ssl);

#endif
