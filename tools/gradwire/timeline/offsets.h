// The offset of one clock to another, from bounds.
//
// At time x of the one clock the other has x + offset(x). Each pair of moments of which one was before the other bounds the offset
// at one time from one side. The offset is taken to be linear within each window of about 10 s, by at most OFFSETS_DRIFT: of all
// such functions that keep all bounds, the one in the middle is chosen, and how far another one may be from it is the
// uncertainty. So if the clocks are as assumed, the true offset is within it.
//
//     offsets_points p = { 0 };
//     offsets_add(&p, x, y, is_upper);
//     offsets_result r = offsets_find(&p, &o);
#ifndef GRADWIRE_OFFSETS_H
#define GRADWIRE_OFFSETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OFFSETS_WINDOW_NS INT64_C(10000000000)
// Two clocks that are both corrected by NTP differ by at most 500 ppm each.
#define OFFSETS_DRIFT 1e-3

enum { OFFSETS_WINDOWS_MAX = 4096 };

// The offset at |x| is at least, or at most, |y|.
typedef struct offsets_point {
    int64_t x, y;
} offsets_point;

// All zero: empty.
typedef struct offsets_points {
    offsets_point *points[2];  // lower bounds, upper bounds
    size_t counts[2];
    bool failed;  // without memory
} offsets_points;

void offsets_add(offsets_points *p, int64_t x, int64_t y, bool is_upper);
void offsets_points_fini(offsets_points *p);

// Linear between the ends of windows; before the first and after the last bound the same as there.
typedef struct offsets {
    int64_t from, base;  // the first end of a window; what |values| are added to
    double width;        // of a window
    int windows;
    double *values;       // at |windows| + 1 ends
    int64_t uncertainty;  // from the first to the last bound
} offsets;

typedef enum offsets_result {
    OFFSETS_FOUND,
    OFFSETS_ONE_SIDED,      // bounds are missing, or all from one side
    OFFSETS_CONTRADICTORY,  // no such function keeps all bounds
    OFFSETS_WITHOUT_MEMORY
} offsets_result;

// Sorts the points. |*out| is for offsets_fini if it is found.
offsets_result offsets_find(offsets_points *p, offsets *out);

void offsets_fini(offsets *o);

// The time of the other clock at |x|, and back. What was before stays before, if the bounds say so, in whole nanoseconds, too.
int64_t offsets_map(const offsets *o, int64_t x);
int64_t offsets_unmap(const offsets *o, int64_t at);

#endif
