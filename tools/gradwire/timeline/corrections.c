#include "timeline/corrections.h"

#include <math.h>
#include <stdlib.h>

#include "timeline/offsets.h"

enum { ROUNDS_MAX = 2000 };

static const double ROUNDING = 2;  // nanoseconds

bool corrections_open(corrections *c, int host_count) {
    *c = (corrections){ .host_count = host_count };
    c->is_fixed = calloc((size_t)host_count, sizeof *c->is_fixed);
    return c->is_fixed;
}

void corrections_fini(corrections *c) {
    free(c->is_fixed);
    free(c->pairs);
    free(c->values);
    *c = (corrections){ 0 };
}

void corrections_add(corrections *c, const corrections_pair *p) {
    if ((c->pair_count & (c->pair_count - 1)) == 0) {
        size_t capacity = c->pair_count ? 2 * c->pair_count : 1;
        corrections_pair *larger = realloc(c->pairs, capacity * sizeof *larger);
        if (!larger) {
            c->failed = true;
            return;
        }
        c->pairs = larger;
    }
    c->pairs[c->pair_count++] = *p;
}

// ---- Windows ------------------------------------------------------------------------------------

// Where a time is among the ends of windows: the value there is that of |end| and the next one, by parts.
typedef struct place {
    double *values;
    double part;
} place;

static place place_of(const corrections *c, int host, int64_t at) {
    double x = (double)(at - c->from) / c->width;
    int k = x > 0 ? (int)fmin(x, c->windows - 1) : 0;
    double part = x - k;
    return (place){ &c->values[(size_t)host * (size_t)(c->windows + 1) + (size_t)k], part < 0 ? 0
                                                                                     : part > 1
                                                                                         ? 1
                                                                                         : part };
}

static double value_at(place p) {
    return p.values[0] + p.part * (p.values[1] - p.values[0]);
}

static double weight_of(place p) {
    return (1 - p.part) * (1 - p.part) + p.part * p.part;
}

static void add_at(place p, double x) {
    p.values[0] += x * (1 - p.part);
    p.values[1] += x * p.part;
}

static bool make_windows(corrections *c) {
    int64_t until = INT64_MIN;
    c->from = INT64_MAX;
    for (size_t i = 0; i < c->pair_count; i++) {
        const corrections_pair *p = &c->pairs[i];
        int64_t low = p->before_ns < p->after_ns ? p->before_ns : p->after_ns;
        int64_t high = p->before_ns > p->after_ns ? p->before_ns : p->after_ns;
        if (low < c->from) c->from = low;
        if (high > until) until = high;
    }
    int64_t length = until - c->from, windows = length / OFFSETS_WINDOW_NS + 1;
    c->windows = windows < OFFSETS_WINDOWS_MAX ? (int)windows : OFFSETS_WINDOWS_MAX;
    c->width = length ? (double)length / c->windows : 1;
    size_t ends = (size_t)c->windows + 1;
    c->values = calloc((size_t)c->host_count * ends, sizeof *c->values);
    return c->values;
}

// ---- Projections --------------------------------------------------------------------------------

// Moves the two hosts as little as possible, so that the pair does not lead back. Returns whether it did.
static bool project(const corrections *c, const corrections_pair *p) {
    place before = place_of(c, p->before, p->before_ns), after = place_of(c, p->after, p->after_ns);
    double back = (double)(p->before_ns - p->after_ns) + value_at(before) - value_at(after);
    double weight = (c->is_fixed[p->before] ? 0 : weight_of(before)) +
                    (c->is_fixed[p->after] ? 0 : weight_of(after));
    if (back <= -ROUNDING || !(weight > 0)) return false;
    // A little too far, so that the end is reached.
    double by = (1.2 * back + 2 * ROUNDING) / weight;
    if (!c->is_fixed[p->before]) add_at(before, -by);
    if (!c->is_fixed[p->after]) add_at(after, by);
    return true;
}

// Leaves out the pairs that no correction of that size concerns.
static void keep_close(corrections *c, double most) {
    size_t kept = 0;
    for (size_t i = 0; i < c->pair_count; i++)
        if ((double)(c->pairs[i].after_ns - c->pairs[i].before_ns) < most)
            c->pairs[kept++] = c->pairs[i];
    c->pair_count = kept;
}

static double find_back(const corrections *c) {
    double most = 0;
    for (size_t i = 0; i < c->pair_count; i++)
        most = fmax(most, (double)(c->pairs[i].before_ns - c->pairs[i].after_ns));
    return most;
}

bool corrections_find(corrections *c) {
    if (c->failed) return false;
    double most = find_back(c);
    if (most <= 0) return true;
    if (!make_windows(c)) return false;
    keep_close(c, 100 * most + 1000);
    bool any = true;
    for (int round = 0; any && round < ROUNDS_MAX; round++) {
        any = false;
        for (size_t i = 0; i < c->pair_count; i++) any |= project(c, &c->pairs[i]);
    }
    return true;
}

// ---- Corrections --------------------------------------------------------------------------------

int64_t corrections_at(const corrections *c, int host, int64_t at) {
    return c->values ? (int64_t)floor(value_at(place_of(c, host, at)) + 0.01) : 0;
}

int64_t corrections_most(const corrections *c, int host) {
    double most = 0;
    for (int k = 0; c->values && k <= c->windows; k++)
        most = fmax(most, fabs(c->values[(size_t)host * (size_t)(c->windows + 1) + (size_t)k]));
    return (int64_t)ceil(most);
}
