// The internals of a store in Redis: its URL, and commands to it.
//
// Threads: one thread at a time uses a redis_line, without the loop lock.
#ifndef STORE_STORE_REDIS_H
#define STORE_STORE_REDIS_H

#include "base/bytes.h"
#include "base/limits.h"
#include <gradwire/status.h>

enum { REDIS_PASSWORD_MAX = 512, REDIS_TIMEOUT_MS = 2000 };

typedef struct redis_place {
    char host[LIMIT_ADDRESS_BYTES + 1];
    int port, database;
    char password[REDIS_PASSWORD_MAX];  // empty: none
} redis_place;

// "redis://host:port/2", also without port or database. INVALID, UNSUPPORTED.
gw_status redis_place_of(const char *url, redis_place *out, gw_error *error);

bool redis_is_built(void);  // else all functions fail with UNSUPPORTED

// A connection, which is made when it is needed.
typedef struct redis_line {
    const redis_place *place;
    struct redisContext *context;  // NULL: there is none
} redis_line;

void redis_line_close(redis_line *l);

// A reply of Redis: a number, bytes, or nothing; of a list its bytes, each with its u32 size before.
typedef struct redis_answer {
    bool is_nothing;
    long long number;
    bytes data;
} redis_answer;

// Sends one command. DISCONNECTED without an answer: the command may be repeated; INVALID with the error of Redis. The
// caller frees |out| by bytes_fini(&out->data).
gw_status redis_call(redis_line *l, const void *const words[], const size_t sizes[], int count,
                     redis_answer *out, gw_error *error);

#endif
