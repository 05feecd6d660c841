// Failed handshakes cause delays: from an address whose handshakes have failed repeatedly the next handshake begins
// later, so that unauthenticated peers do not keep a worker busy. Members at such an address are delayed, too, but by
// at most a second.
//
// Ownership, threads: a plain value, its owner's.
#ifndef NET_TLS_BACKOFF_H
#define NET_TLS_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

enum { BACKOFF_ENTRIES = 64, BACKOFF_FREE = 8, BACKOFF_EACH_MS = 20, BACKOFF_MAX_MS = 1000 };

// An IPv6 address, or an IPv4 address as one; all addresses of one network of 64 bits count as one.
typedef struct backoff_address {
    uint8_t bytes[16];
} backoff_address;

typedef struct backoff_entry {
    backoff_address address;
    int64_t clear_ns;  // its failures are forgotten at this time
} backoff_entry;

typedef struct backoff {
    backoff_entry entries[BACKOFF_ENTRIES];
} backoff;

// When a handshake from |address| may begin: |now_ns| or later. Handshakes that begin later each have a
// start time of their own: *out_counted is true, and its failure is not counted again.
int64_t backoff_begin(backoff *b, const backoff_address *address, int64_t now_ns,
                      bool *out_counted);
// Whether another handshake from |address| would exceed the longest delay.
bool backoff_is_full(const backoff *b, const backoff_address *address, int64_t now_ns);
void backoff_fail(backoff *b, const backoff_address *address, int64_t now_ns);

#endif
