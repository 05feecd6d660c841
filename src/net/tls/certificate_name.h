// The workers that a certificate names: a URI such as "gradwire:*/1-2/trainer%d", of a job, ranks and a name.
// docs/protocol/encryption.md is the specification.
//
// Ownership, threads: plain values.
#ifndef NET_TLS_CERTIFICATE_NAME_H
#define NET_TLS_CERTIFICATE_NAME_H

#include "net/tls/protection.h"

typedef struct certificate_name {
    char job[JOB_ID_MAX];  // "*": any
    uint32_t first_rank, last_rank;
    char name[LIMIT_NAME_BYTES + 1];  // %d stands for the rank
} certificate_name;

enum { CERTIFICATE_NAME_MAX = 16 + JOB_ID_MAX + 32 + LIMIT_NAME_BYTES };  // as a URI

// False for a malformed URI.
bool certificate_name_parse(const char *uri, certificate_name *out);
void certificate_name_write(const certificate_name *n, char out[CERTIFICATE_NAME_MAX]);

// "ps=0", "trainer%d=1-2", or of a job without ranks "trainer%d": any rank. False for a malformed text.
bool certificate_name_of(const char *text, const char *job, certificate_name *out);

// Whether it names |p| in |job|. For a worker without a rank only the job is compared.
bool certificate_name_fits(const certificate_name *n, const char *job, const party *p);

#endif
