// What was measured each second: the last 10 minutes by seconds, the last 24 hours by minutes.
//
// The memory is fixed. Times are seconds of a clock that only goes forward; the caller reads it. A second without a
// measurement is NaN.
//
// Threads: one.
#ifndef GRADWIRE_HISTORY_H
#define GRADWIRE_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

enum { HISTORY_SECONDS = 600, HISTORY_MINUTES = 1440 };

typedef enum history_series {
    HISTORY_CALLS_MADE,  // each second
    HISTORY_CALLS_SERVED,
    HISTORY_COLLECTIVES,
    HISTORY_BYTES_RECEIVED,
    HISTORY_BYTES_SENT,
    HISTORY_MEMORY,      // bytes
    HISTORY_PROCESSORS,  // in use
    HISTORY_SERIES
} history_series;

typedef enum history_span { HISTORY_BY_SECOND, HISTORY_BY_MINUTE } history_span;

typedef struct history {
    int64_t first, second;                           // the earliest and the latest; 0: none
    float seconds[HISTORY_SERIES][HISTORY_SECONDS];  // by second modulo their count
    float minutes[HISTORY_SERIES][HISTORY_MINUTES];
    // of the minute that has not ended
    double sums[HISTORY_SERIES];
    int count;
} history;

void history_init(history *h);

// |second| is more than that of the last call, else nothing is added.
void history_add(history *h, int64_t second, const double values[HISTORY_SERIES]);

// How many steps a span has.
int history_steps(history_span span);

// The value |age| steps before |now|, a second; NaN: there is none. The minute that has not ended has the mean so far.
double history_value(const history *h, history_span span, history_series series, int64_t now,
                     int age);

// How many steps before |now| have values: at least |least|, if the span has as many.
int history_window(const history *h, history_span span, int64_t now, int least);

// Writes |count| means of the last |window| steps, the oldest first, each of an equal part; a part without values is
// NaN. |count| is at most |window|.
void history_means(const history *h, history_span span, history_series series, int64_t now,
                   int window, int count, double *out);

#endif
