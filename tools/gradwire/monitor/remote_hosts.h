// The workers of other hosts, as the link of this host receives them (hosts/looks.h).
//
// Threads: one.
#ifndef GRADWIRE_MONITOR_REMOTE_HOSTS_H
#define GRADWIRE_MONITOR_REMOTE_HOSTS_H

#include "live/look.h"

enum { REMOTE_HOSTS_MAX = 512, REMOTE_HOSTS_SILENT_MS = 10000 };

typedef struct remote_host {
    int peer;
    live live;
    int64_t seen_ms;  // the last look
    int64_t
        offset_ns;  // from its clock to that of this host, less the time that its first look was under way
} remote_host;

typedef struct remote_hosts {
    int fd;  // -1: there are none
    int count;
    remote_host *of[REMOTE_HOSTS_MAX];
} remote_hosts;

// Takes all looks that have arrived. One that cannot be understood is dropped.
void remote_hosts_read(remote_hosts *h);

// The bytes of one look.
void remote_hosts_take(remote_hosts *h, int peer, const void *data, size_t size, int64_t now_ms,
                       int64_t now_ns);

// Whether its workers are shown: it has sent a look in the last REMOTE_HOSTS_SILENT_MS.
bool remote_hosts_is_seen(const remote_host *x, int64_t now_ms);

void remote_hosts_close(remote_hosts *h);

#endif
