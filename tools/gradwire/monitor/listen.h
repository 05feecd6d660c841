// The sockets on which the page and the metrics are served, and who may read them: all that is needed to serve a job.
//
// Ownership: monitor_site_open opens its sockets; the server takes them, or monitor_site_close closes them.
#ifndef GRADWIRE_LISTEN_H
#define GRADWIRE_LISTEN_H

#include "monitor/site.h"
#include "options/monitor_options.h"

enum { LISTEN_WHY_SIZE = 512 };

typedef struct monitor_site {
    int page_fd, metrics_fd;  // -1: none
    site_rules page, metrics;
} monitor_site;

// Returns false, with a sentence in |why|: a port is in use, the file of the token cannot be read.
bool monitor_site_open(monitor_site *x, const monitor_options *o, char *why, size_t why_size);
void monitor_site_close(monitor_site *x);

// "http://127.0.0.1:8080/?key=9f..."
void monitor_site_address(const monitor_site *x, char *out, size_t size);

#endif
