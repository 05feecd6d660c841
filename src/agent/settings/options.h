// The options of gw_rpc_init, from its arguments, URL and environment, checked and merged.
#ifndef AGENT_SETTINGS_OPTIONS_H
#define AGENT_SETTINGS_OPTIONS_H

#include "base/env.h"
#include "base/limits.h"
#include "net/tls/protection.h"
#include <gradwire/rpc.h>

enum { OPTIONS_PATH_MAX = 1024 };

typedef struct join_options {
    char name[LIMIT_NAME_BYTES + 1];
    gw_job_kind job;
    int rank, world_size;                    // of a group 0 or -1, and 0
    bool is_launched;                        // both are of the environment alone
    char master[LIMIT_ADDRESSES_BYTES + 1];  // "host:port", of a group a list; empty: a file
    char launch
        [JOB_ID_MAX];  // the launcher's mark of the job; empty: options have rank and world size
    char path[OPTIONS_PATH_MAX];  // of a file, or "redis://..."; empty: they meet at |master|
    char redis_password_file[OPTIONS_PATH_MAX];
    bool goes_beyond;                                  // loopback: others may be on other hosts
    char listen_addresses[LIMIT_ADDRESSES_BYTES + 1];  // chosen by the user; empty: not
    char listen_interfaces[LIMIT_ADDRESSES_BYTES + 1];
    int64_t timeout_ms;  // GW_NO_TIMEOUT: none
    int64_t join_timeout_ms;
    int threads;
    bool lacks_state;  // of the job, so that no worker can take its place in it through this one
    protection protection;  // the caller that has resolved the options ends it
} join_options;

// On failure |error| is set, and nothing is to be ended. |variable| is getenv, or a test's.
gw_status options_resolve(const gw_rpc_options *given, char *(*variable)(const char *name),
                          join_options *out, gw_error *error);

// [A-Za-z0-9_:.-], 1 to 127 of them.
bool options_is_name(const char *name);

// Whether |name| is |pattern|, in which %d may stand for digits; and whether any name can be.
bool options_fits_name(const char *pattern, const char *name);
bool options_is_pattern(const char *pattern);
// |pattern| with |rank| in place of %d, if it has one. False if that is no name.
bool options_complete_name(const char *pattern, int rank, char out[LIMIT_NAME_BYTES + 1]);

#endif
