// A range of the steps of one process, as its records have them: steps of an elastic job by their numbers, else the optimizer
// steps that have ended, from 1.
#ifndef GRADWIRE_STEPS_H
#define GRADWIRE_STEPS_H

#include "observe/rings.h"

typedef struct steps {
    // arguments
    int first, last;
    // progress
    int64_t ended;         // the number of the last step that has ended
    bool has_numbers;      // of an elastic job
    bool has_begun;        // |first|: |from| is known
    bool is_over;          // |last| has ended: |until| is known
    uint64_t from, until;  // ticks
} steps;

// Looks at the records of |r| from |seen| of each thread on, which it advances. Before |first| has begun, drops all that is older.
void steps_follow(steps *s, rings *r, uint32_t seen[TRACE_THREADS]);

// Drops what is not of the range.
void steps_trim(const steps *s, rings *r);

#endif
