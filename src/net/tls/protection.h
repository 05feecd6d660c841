// What protects the connections of a worker: the secret of its job, from which they are encrypted;
// or nothing, and then they stay on this host, unless its user wants them open.
//
// Ownership: plain, but for the secret. Threads: not changed while its env has it.
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
    secret *secret;        // NULL: none
    bool insecure;         // this worker's user wants connections beyond this host without it
    char job[JOB_ID_MAX];  // tells jobs with the same key apart; may be empty
    party self;            // this worker, for whom connections are
    bool meets_at_rank_0;  // who hosts its store has to be rank 0, if certificates say who is who
    struct tls *tls;       // once connection_protect was called, if there is a secret
} protection;

void protection_fini(protection *p);  // wipes its secret, after connection_unprotect

// Whether connections beyond this host are allowed. If not, UNSUPPORTED says of |address|, which
// comes from |what| ("MASTER_ADDR"), what can be done. NULL for |p| is as without any.
gw_status protection_allows_beyond(const protection *p, const char *what, const char *address,
                                   gw_error *error);

#endif
