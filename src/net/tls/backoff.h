// Handshakes that fail are waited for: from an address whose handshakes have failed again and again the
// next one begins later, so that strangers do not keep a worker busy. Members there wait, too, but not
// longer than a second.
//
// Ownership, threads: a plain value, its owner's.
#ifndef NET_TLS_BACKOFF_H
#define NET_TLS_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

enum { BACKOFF_PLACES = 64, BACKOFF_FREE = 8, BACKOFF_EACH_MS = 20, BACKOFF_MAX_MS = 1000 };

// An IPv6 address of somebody else's, or an IPv4 address as one; those of one network of 64 bits count
// as one.
typedef struct backoff_address {
    uint8_t bytes[16];
} backoff_address;

typedef struct backoff_place {
    backoff_address address;
    int64_t clear_ns;  // by then what has failed is forgotten
} backoff_place;

typedef struct backoff {
    backoff_place places[BACKOFF_PLACES];
} backoff;

// When a handshake from |address| may begin: |now_ns| or later. Of those that begin later each has a
// time of its own, so that *out_counted is true and its failure is not counted again.
int64_t backoff_begin(backoff *b, const backoff_address *address, int64_t now_ns,
                      bool *out_counted);
// Whether one more that comes from |address| would have to wait longer than any does.
bool backoff_is_full(const backoff *b, const backoff_address *address, int64_t now_ns);
void backoff_fail(backoff *b, const backoff_address *address, int64_t now_ns);

#endif
