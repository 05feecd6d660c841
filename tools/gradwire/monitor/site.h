// What a request gets, and who may get it; without sockets.
//
// The page is for a browser of this user on this host, or behind `ssh -L`: it needs the key, which other users of the
// host do not have, and the name of this host in the request (docs/SECURITY.md, "The page of a job").
//
// Threads: any.
#ifndef GRADWIRE_SITE_H
#define GRADWIRE_SITE_H

#include <stdbool.h>

#include "monitor/model.h"

enum { SITE_KEY_SIZE = 33, SITE_TOKEN_MAX = 256, SITE_COOKIE_SIZE = 64 };

typedef struct site_rules {
    bool is_metrics;  // only /metrics and /healthz, for other hosts, too
    bool is_open;     // with |is_metrics|: without a token
    // What a request has to have: the key of the page, 128 bits in hexadecimal, or the token of the metrics.
    char secret[SITE_TOKEN_MAX + 1];
    int port;  // in the name of the cookie, as browsers send cookies to all ports of a host
} site_rules;

// The parts of a request; NULL: it has none.
typedef struct site_request {
    const char *method, *path;
    const char *key, *span;  // of the query
    const char *host, *origin, *cookie, *authorization;
} site_request;

typedef enum site_resource {
    SITE_PAGE,
    SITE_PAGE_OF_DAY,
    SITE_JSON,
    SITE_METRICS,
    SITE_HEALTH,
    SITE_RESOURCES
} site_resource;

typedef struct site_answer {
    int status;              // of HTTP: 200, or of an error
    site_resource resource;  // with 200
    const char *error;       // else: a sentence
    bool sets_cookie;        // which site_cookie has
} site_answer;

site_answer site_decide(const site_rules *rules, const site_request *request);

// The value of the header Set-Cookie.
void site_cookie(const site_rules *rules, char out[2 * SITE_COOKIE_SIZE + SITE_KEY_SIZE]);

// A new key. False, with errno, without random numbers.
bool site_make_key(char out[SITE_KEY_SIZE]);

const char *site_type(site_resource resource);  // the value of Content-Type

// The health of the job: 200 while it runs and is not hung, else 503.
int site_health(const model *m);

#endif
