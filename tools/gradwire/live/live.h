// The workers of a job while it runs: their tables again and again, and rates between two of them.
//
// All memories are looked for every 10 s, and after a process has ended; in between only the tables are read again.
//
// Threads: one.
#ifndef GRADWIRE_LIVE_H
#define GRADWIRE_LIVE_H

#include "live/usage.h"
#include "observe/find.h"

enum { LIVE_FIND_MS = 10000, LIVE_FIND_AGAIN_MS = 2000, LIVE_OLD_MS = 3000 };

// A worker, or a process without one.
typedef struct live_worker {
    pid_t pid;
    uint64_t start_time;
    int agent;  // an index of the agents of the image; -1: none
    int image;  // of live.now
    // the latest two tables that differ
    int64_t table_ns, table_before_ns;  // when they were made; 0: none
    uint64_t counters[TRACE_COUNTERS], counters_before[TRACE_COUNTERS];
    trace_peers peers, peers_before;
    process_usage usage, usage_before;
    int64_t usage_ns, usage_before_ns;
    // results
    double rates[TRACE_COUNTERS];  // each second
    double processor;              // 1: one processor
} live_worker;

typedef struct live {
    const char *wanted;
    int expected;  // of workers: while there are fewer, all are looked for every 2 s
    found now;
    int count;
    live_worker *workers;   // by job, then rank
    int64_t found_ms;       // when all were looked for
    bool is_old;            // a process has ended since
    process_usage *usages;  // by image, of a job of another host; NULL: of this host, from /proc
} live;

// Returns false, with a sentence in |why|, as find_images.
bool live_open(const char *wanted, live *out, char *why, size_t why_size);

// The same of a job whose workers may not have started.
void live_start(const char *wanted, int expected, live *out);

// Reads all again. Without memory, or if the job is gone, what was there stays.
void live_update(live *l);
void live_close(live *l);

// For a job of another host, whose images cannot be read here: takes what |now| has, and |usages|, an array by image.
void live_take(live *l, found *now, process_usage *usages);

// Whether a process of them runs.
bool live_any_runs(const live *l);

// Whether a running worker has published no table since live_open.
bool live_is_incomplete(const live *l);

// How much each count of |peer|, which is one of |w|, grows each second: 0 if the table before did not have it.
void live_peer_rates(const live *l, const live_worker *w, const trace_peer *peer,
                     double out[TRACE_PEER_COUNTERS]);

const image *live_image(const live *l, const live_worker *w);
const image_agent *live_agent(const live *l, const live_worker *w);  // NULL: none

#endif
