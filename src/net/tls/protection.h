// The protection of a worker's connections: the secret of the job, with which the connections are encrypted; without a
// secret, connections stay on this host, unless the user allows others.
//
// Ownership: a plain value, except for the secret. Threads: a protection does not change while an env uses it.
#ifndef NET_TLS_PROTECTION_H
#define NET_TLS_PROTECTION_H

#include "base/limits.h"
#include "net/tls/secret.h"

enum { JOB_ID_MAX = 64 };

#define PARTY_RANK_UNKNOWN UINT32_MAX

// One end of a connection.
typedef struct party {
    char name[LIMIT_NAME_BYTES + 1];
    uint32_t rank;
    uint64_t incarnation;
} party;

typedef struct protection {
    secret *secret;  // NULL: none
    bool insecure;   // this worker's user allows connections beyond this host without a secret
    char job[JOB_ID_MAX];  // distinguishes jobs with the same key; may be empty
    party self;            // this worker
    bool meets_at_rank_0;  // the host of its store has to be rank 0, if certificates name workers
    struct tls *tls;       // once connection_protect was called, if there is a secret
} protection;

void protection_fini(protection *p);  // wipes its secret, after connection_unprotect

// Whether connections beyond this host are allowed. If not, UNSUPPORTED; the error names |address|, its
// origin |what| ("MASTER_ADDR") and the remedies. NULL for |p| is the same as no protection.
gw_status protection_allows_beyond(const protection *p, const char *what, const char *address,
                                   gw_error *error);

#endif
