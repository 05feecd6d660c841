// The server of the page and of the metrics, by libmicrohttpd, which is loaded when it is first used.
//
// It has no thread: the caller waits for its descriptor and runs it. A connection carries one request, for at most
// HTTP_CONNECTION_MS, with at most HTTP_HEADER_BYTES of headers.
//
// Threads: one.
#ifndef GRADWIRE_HTTP_H
#define GRADWIRE_HTTP_H

#include "monitor/site.h"

enum { HTTP_CONNECTIONS = 32, HTTP_HEADER_BYTES = 8192, HTTP_CONNECTION_MS = 10000 };

typedef struct http http;

// Returns false, with a sentence in |why|, if the library is missing.
bool http_is_available(char *why, size_t why_size);

// Serves on |listen_fd|, which it takes. Both outlive the server. NULL, with a sentence in |why|, without memory or if
// the library refuses.
http *http_open(int listen_fd, const site_rules *rules, const model *m, char *why, size_t why_size);
void http_close(http *h);

int http_poll_fd(const http *h);     // readable when http_run has work
int http_timeout_ms(const http *h);  // -1: without limit
void http_run(http *h);

// The model has changed.
void http_renew(http *h);

#endif
