// What the page, its JSON and the metrics show of a job: its workers, also those that have ended, their history, events
// and what a job without progress waits for.
//
// The memory is bounded: MODEL_WORKERS_MAX workers, of which a new one replaces the one that has ended first. Times are
// given by the caller.
//
// Ownership: a model owns all that it points to. Threads: one.
#ifndef GRADWIRE_MODEL_H
#define GRADWIRE_MODEL_H

#include "live/row.h"
#include "monitor/detail.h"
#include "monitor/history.h"
#include "observe/progress.h"

enum {
    MODEL_WORKERS_MAX = 1024,
    MODEL_EVENTS_MAX = 64,
    MODEL_FINDINGS_MAX = 32,
    MODEL_TEXT_SIZE = 512,
    MODEL_DETAIL_BYTES =
        4 * 1000 * 1000,     // of all workers; others have no metrics by peer and name
    MODEL_STUCK_MS = 10000,  // without progress until roots are shown
    MODEL_HUNG_MS = 60000,   // until the job counts as hung
};

typedef struct model_worker {
    live_row row;      // as it was last, without its table
    detail *detail;    // NULL: not known, or there was no room
    bool is_present;   // in the last look
    bool is_latest;    // no later attempt has its name
    int64_t ended_ms;  // 0: its process runs
    history history;
} model_worker;

_Static_assert(MODEL_WORKERS_MAX * sizeof(model_worker) + MODEL_DETAIL_BYTES <= 64 * 1000 * 1000,
               "64 MB in all");

typedef struct model_event {
    int64_t at_ms, wall_s;
    bool is_bad;  // a worker was lost or is stopped
    char text[MODEL_TEXT_SIZE];
} model_event;

// A line of the report of what the job waits for (observe/hang.h).
typedef struct model_finding {
    int depth;  // 0: a root, or a member of a cycle; more: what waits for it
    bool is_cycle;
    char text[MODEL_TEXT_SIZE];
} model_finding;

typedef enum model_state {
    MODEL_AWAITS_WORKERS,  // none has been seen
    MODEL_RUNS,
    MODEL_IS_STUCK,  // nothing has ended for MODEL_STUCK_MS, while a thread waits as long
    MODEL_HAS_ENDED
} model_state;

typedef struct model {
    char job[FIND_KEY_SIZE];  // "": not known yet
    model_worker **workers;   // by rank
    int count;
    bool is_unsorted;        // a worker is new, or has another name
    int left_out;            // workers for which there was no room in the last look
    size_t detail_bytes;     // of all workers
    history total;           // of all workers
    int64_t now_ms, wall_s;  // of the last look; 0: none
    progress progress;
    bool was_stuck;
    int event_count;  // also of those that are gone
    model_event events[MODEL_EVENTS_MAX];
    int finding_count;
    model_finding findings[MODEL_FINDINGS_MAX];
} model;

// Returns NULL without memory.
model *model_open(const char *job);
void model_close(model *m);

// One look at the job. |images|, |image_count|: of all its workers, for its progress. Without memory a worker is left out.
void model_update(model *m, const live_row *rows, int count, const image *images, int image_count,
                  int64_t now_ms, int64_t wall_s);

model_state model_state_of(const model *m);
int64_t model_unmoved_ms(const model *m);  // since when nothing has ended

// "nothing has ended for 63 s": the state in a sentence.
void model_describe(const model *m, char *out, size_t size);

// Of the latest attempts, and of processes without a worker.
typedef struct model_counts {
    int workers;  // with a name
    int running, stopped, ended, left;
} model_counts;
model_counts model_count(const model *m);

// "joining", "serving", "leaving", "left", "fenced", "stopped", "ended"; "runs": a process without a worker.
const char *model_worker_state(const model_worker *w);

// The name, or that of the program.
const char *model_worker_name(const model_worker *w);

// The |index|-th event, from the newest on; NULL: there are no more.
const model_event *model_event_at(const model *m, int index);

#endif
