// The clocks of several hosts, aligned by the messages between their workers (order.h, offsets.h), and where these do not
// suffice, by wall time. Workers of one host have one clock.
#ifndef GRADWIRE_CLOCKS_H
#define GRADWIRE_CLOCKS_H

#include "observe/image.h"
#include "timeline/table.h"

typedef enum clocks_method {
    CLOCKS_REFERENCE,  // the clock of the trace
    CLOCKS_BY_MESSAGES,
    CLOCKS_BY_WALL_TIME
} clocks_method;

typedef enum clocks_reason {
    CLOCKS_NO_REASON,
    CLOCKS_NO_MESSAGES,    // or only in one direction
    CLOCKS_CONTRADICTION,  // messages contradict each other: clocks were set, or are not as assumed
    CLOCKS_PARENT          // by messages, but with a host that is aligned by wall time
} clocks_reason;

typedef struct clocks_host {
    const char *name;  // of its first image
    int first_image;
    clocks_method method;
    clocks_reason reason;    // for wall time
    int parent;              // the host that its messages were exchanged with; -1
    int64_t offset_ns;       // added to its times, in the middle of its records
    int64_t uncertainty_ns;  // by messages: the true offset is not farther away
} clocks_host;

// All zero: one host.
typedef struct clocks {
    clocks_host *hosts;
    int host_count;
    int *host_of_image;
    // Calls whose arrow would lead back in time, by a flow id's kind and id: TRACE_CALL_MADE, TRACE_BODY_ENDED.
    table back;
    uint64_t back_count;
} clocks;

// Moves the times of the images to the clock of the first host. Returns false without memory.
bool clocks_align(image *images, int count, clocks *out);
void clocks_fini(clocks *c);

// "messages", "wall time, as no messages were received in both directions"
const char *clocks_words(const clocks_host *h);

// Whether an arrow from the record of |kind| with |id| leads back.
bool clocks_leads_back(const clocks *c, uint8_t kind, uint64_t id);

#endif
