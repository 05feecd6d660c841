// Small corrections of the times of several hosts, so that no pair of moments leads back in time.
//
// The offsets of hosts are found one pair of hosts after the other. What two hosts that are aligned through a third one know
// about each other may then lead back by less than the uncertainty. The corrections are linear within each window of about 10 s,
// and found by projection on the pairs that lead back, again and again (Agmon, Motzkin and Schoenberg, 1954).
#ifndef GRADWIRE_CORRECTIONS_H
#define GRADWIRE_CORRECTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A moment that was before another one.
typedef struct corrections_pair {
    int before, after;  // hosts
    int64_t before_ns, after_ns;
} corrections_pair;

typedef struct corrections {
    int host_count;
    bool *is_fixed;  // by host, false at first: those that are not corrected
    corrections_pair *pairs;
    size_t pair_count;
    int64_t from;
    double width;  // of a window
    int windows;
    double *values;  // by host and end of a window; NULL: nothing is to be corrected
    bool failed;     // without memory
} corrections;

bool corrections_open(corrections *c, int host_count);
void corrections_add(corrections *c, const corrections_pair *p);

// Returns false without memory. Pairs may lead back afterwards if no corrections exist, or too many steps are needed.
bool corrections_find(corrections *c);

int64_t corrections_at(const corrections *c, int host, int64_t at);
int64_t corrections_most(const corrections *c, int host);  // the largest one

void corrections_fini(corrections *c);

#endif
