// Creates a CA and certificates of workers, for `gradwire ca` and `gradwire key --ca`, and for tests.
//
// Ownership: the texts are the caller's to wipe. Threads: any.
#ifndef NET_TLS_CERTIFICATE_MAKE_H
#define NET_TLS_CERTIFICATE_MAKE_H

#include "net/tls/certificate_name.h"

// The limit of one certificate, so that a handshake stays below LIMIT_HANDSHAKE_BYTES.
enum { CERTIFICATE_BYTES_MAX = 1536 };

// A new CA: its private key and its certificate, valid for |days|. SYSTEM.
gw_status certificate_make_ca(int days, char out[SECRET_TEXT_MAX], gw_error *error);

// A new private key, a certificate of it for |names| by the CA in the text |ca|, whose origin is
// |what|; and the certificate of the CA. INVALID if |ca| is no CA, LIMIT for more names than fit.
gw_status certificate_make(const char *ca, const char *what, const certificate_name *names,
                           int count, int days, char out[SECRET_TEXT_MAX], gw_error *error);

#endif
